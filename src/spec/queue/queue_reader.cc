// Queues from YAML and back. What is true of several queues together is checked in queue.cc.
#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"
#include "spec/internal/document.h"
#include "spec/internal/queue_list.h"
#include "spec/queue/queue.h"

namespace longhaul::spec {

namespace {

using internal::Node;

constexpr auto kQueueKeys =
    std::to_array<std::string_view>({"name", "parent", "guarantee", "limit", "lend", "weight",
                                     "order", "reclaim", "users", "per_user", "max_run_time"});
constexpr auto kAmountKeys =
    std::to_array<std::string_view>({"accelerators", "cpu", "memory", "devices"});
constexpr auto kUserKeys = std::to_array<std::string_view>(
    {"jobs", "running", "accelerators", "cpu", "memory", "devices"});
constexpr size_t kMaxQueueName = 63;
constexpr size_t kMaxModelName = 63;
constexpr uint32_t kMaxWeight = 1'000'000;
constexpr uint32_t kMaxUserJobs = 1'000'000;
constexpr Duration kLongestRun = std::chrono::hours(24 * 365);
// A quota beyond this is a slip of the pen; it keeps sums over all queues within 63 bits.
constexpr int64_t kMaxQueueAmount = int64_t{1} << 41;

// As the service checks the user of a submission.
bool IsUserName(std::string_view text) {
  return !text.empty() && text.size() <= kMaxQueueName &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  std::string_view("-_.@+$\\").find(c) != std::string_view::npos;
         });
}

class QueueReader {
 public:
  explicit QueueReader(std::string_view source) : source_(source) {}

  Result<std::vector<QueueSpec>> Read(const Node& root) const {
    if (root.kind != Node::Kind::kMap) return Refuse(root.line, "expected a map with 'queues'");
    for (const Node& child : root.children) {
      if (child.key != "queues") return Unknown(child, std::to_array<std::string_view>({"queues"}));
    }
    const Node* list = internal::Find(root, "queues");
    if (list == nullptr) return Refuse(root.line, "lacks the list 'queues'");
    return ReadList(*list);
  }

  Result<std::vector<QueueSpec>> ReadList(const Node& list) const {
    if (list.kind != Node::Kind::kList) return Refuse(list.line, "queues must be a list");
    std::vector<QueueSpec> queues;
    for (const Node& item : list.children) {
      ASSIGN_OR_RETURN(queues.emplace_back(), ReadQueue(item));
    }
    const Status sound = CheckQueues(queues);
    if (!sound.ok()) return sound.WithContext(source_);
    return queues;
  }

 private:
  Status Refuse(int line, const std::string& why) const {
    return InvalidArgument(std::string(source_) + ":" + std::to_string(line) + ": " + why);
  }

  template <size_t N>
  Status Unknown(const Node& node, const std::array<std::string_view, N>& known) const {
    const auto nearest = Nearest(node.key, known);
    return Refuse(node.key_line,
                  "unknown key '" + Printable(node.key, 40) + "'" +
                      (nearest ? ": did you mean '" + std::string(*nearest) + "'?" : ""));
  }

  // Quotas of a model that have no value beside the standard ones are removed, so that equal queues
  // compare equal.
  Result<QueueSpec> ReadQueue(const Node& item) const {
    if (item.kind != Node::Kind::kMap) {
      return Refuse(item.line, "a queue is a map of keys such as 'name: research'");
    }
    QueueSpec queue;
    for (const Node& child : item.children) {
      RETURN_IF_ERROR(ReadKey(child, queue));
    }
    if (queue.name.empty()) return Refuse(item.line, "a queue lacks its 'name'");
    std::erase_if(queue.models, [](const ModelQuota& quota) {
      ModelQuota none;
      none.model = quota.model;
      return quota == none;
    });
    return queue;
  }

  Status ReadKey(const Node& node, QueueSpec& queue) const {
    const std::string& key = node.key;
    if (key == "guarantee")
      return ReadAmounts(node, queue, queue.guarantee, &ModelQuota::guarantee);
    if (key == "limit") return ReadAmounts(node, queue, queue.limit, &ModelQuota::limit);
    if (key == "lend") return ReadAmounts(node, queue, queue.lend, &ModelQuota::lend);
    if (key == "users") return ReadUsers(node, queue.users);
    if (key == "per_user") return ReadUserLimits(node, queue);
    if (std::find(kQueueKeys.begin(), kQueueKeys.end(), key) == kQueueKeys.end())
      return Unknown(node, kQueueKeys);
    if (node.kind != Node::Kind::kScalar) return Refuse(node.line, key + " must be one value");
    if (key == "name") return ReadName(node, queue.name);
    if (key == "parent") return ReadName(node, queue.parent);
    if (key == "max_run_time") return ReadRunTime(node, queue.max_run_time);
    if (key == "weight") {
      const Result<uint64_t> weight = ParseUint64(node.text);
      if (!weight.ok() || *weight < 1 || *weight > kMaxWeight) {
        return Bad(node, "a whole number from 1 to " + WithThousands(kMaxWeight));
      }
      queue.weight = static_cast<uint32_t>(*weight);
    } else if (key == "order") {
      if (node.text != "priority" && node.text != "first-come") {
        return Bad(node, "'priority' or 'first-come'");
      }
      queue.order = node.text == "priority" ? QueueOrder::kPriority : QueueOrder::kFirstCome;
    } else {
      if (node.text != "true" && node.text != "false") return Bad(node, "'true' or 'false'");
      queue.reclaim = node.text == "true";
    }
    return {};
  }

  Status Bad(const Node& node, const std::string& expected) const {
    return Refuse(node.line, node.key + ": '" + Printable(node.text, 40) + "' is not " + expected);
  }

  Status ReadName(const Node& node, std::string& name) const {
    const bool good = std::all_of(node.text.begin(), node.text.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '-' || c == '_' || c == '.';
    });
    if (!good || node.text.empty() || node.text.size() > kMaxQueueName) {
      return Bad(node, "a name: letters, digits, '-', '_', '.'; at most 63");
    }
    name = node.text;
    return {};
  }

  Status ReadAmounts(const Node& node, QueueSpec& queue, SharedAmounts& amounts,
                     int64_t ModelQuota::*of_model) const {
    if (node.kind != Node::Kind::kMap) {
      return Refuse(node.line, node.key + " must be a map such as {accelerators: 8, memory: 1TiB}");
    }
    for (const Node& child : node.children) {
      // Event logs hold files written before 0.1, in which the key of accelerators is cards.
      const std::string_view key =
          child.key == "cards" ? std::string_view("accelerators") : std::string_view(child.key);
      if (key == "devices") {
        RETURN_IF_ERROR(ReadModels(child, queue, of_model));
        continue;
      }
      const auto found = std::find(kSharedResourceNames.begin(), kSharedResourceNames.end(), key);
      if (found == kSharedResourceNames.end()) return Unknown(child, kAmountKeys);
      RETURN_IF_ERROR(
          ReadAmount(child, static_cast<size_t>(found - kSharedResourceNames.begin()), amounts));
    }
    return {};
  }

  // Accelerators by device model.
  // The models of a queue are sorted by name, so that two files with another order give the same
  // queue.
  Status ReadModels(const Node& node, QueueSpec& queue, int64_t ModelQuota::*quota) const {
    if (node.kind != Node::Kind::kMap || node.children.empty() ||
        node.children.size() > kMaxQuotaModels) {
      return Refuse(node.line, "devices must be a map of 1 to " + std::to_string(kMaxQuotaModels) +
                                   " device models such as {h100: 8}");
    }
    for (const Node& child : node.children) {
      if (child.key.empty() || child.key.size() > kMaxModelName) {
        return Refuse(child.line, "devices: '" + Printable(child.key, 70) +
                                      "' is not the name of a device model: 1 to " +
                                      std::to_string(kMaxModelName) + " characters");
      }
      const auto amount =
          child.kind == Node::Kind::kScalar ? Thousandths(child.text) : std::nullopt;
      if (!amount || *amount > kMaxQueueAmount) {
        return Bad(child, "a number such as 8 or 0.5, of at most three decimals");
      }
      auto at = std::lower_bound(
          queue.models.begin(), queue.models.end(), child.key,
          [](const ModelQuota& each, const std::string& name) { return each.model < name; });
      if (at == queue.models.end() || at->model != child.key) {
        at = queue.models.insert(at, ModelQuota());
        at->model = child.key;
      }
      (*at).*quota = *amount;
    }
    return {};
  }

  Status ReadAmount(const Node& node, size_t resource, SharedAmounts& amounts) const {
    const bool memory = resource == static_cast<size_t>(SharedResource::kMemory);
    const auto amount = node.kind != Node::Kind::kScalar ? std::nullopt
                        : memory                         ? Mebibytes(node.text)
                                                         : Thousandths(node.text);
    if (!amount || *amount > kMaxQueueAmount) {
      return Bad(node, memory ? "a size such as 512GiB"
                              : "a number such as 8 or 0.5, of at most three decimals");
    }
    amounts[resource] = *amount;
    return {};
  }

  Status ReadUsers(const Node& node, std::vector<std::string>& users) const {
    if (node.kind != Node::Kind::kList || node.children.empty() ||
        node.children.size() > kMaxQueueUsers) {
      return Refuse(node.line, "users must be a list of 1 to " + WithThousands(kMaxQueueUsers) +
                                   " names such as [alice, bob]; without the key, everybody may "
                                   "submit");
    }
    for (const Node& child : node.children) {
      if (child.kind != Node::Kind::kScalar || !IsUserName(child.text)) {
        return Refuse(child.line, "users: '" + Printable(child.text, 70) +
                                      "' is not a user's name: at most 63 letters, digits and "
                                      "-_.@+$\\");
      }
      if (std::find(users.begin(), users.end(), child.text) != users.end()) {
        return Refuse(child.line, "users: '" + Printable(child.text, 64) + "' is named twice");
      }
      users.push_back(child.text);
    }
    return {};
  }

  Status ReadUserLimits(const Node& node, QueueSpec& queue) const {
    UserLimits& limits = queue.per_user;
    if (node.kind != Node::Kind::kMap) {
      return Refuse(node.line, "per_user must be a map such as {running: 4, accelerators: 16}");
    }
    for (const Node& child : node.children) {
      if (child.key == "devices") {
        RETURN_IF_ERROR(ReadModels(child, queue, &ModelQuota::per_user));
        continue;
      }
      const auto found =
          std::find(kSharedResourceNames.begin(), kSharedResourceNames.end(), child.key);
      if (found != kSharedResourceNames.end()) {
        RETURN_IF_ERROR(ReadAmount(child, static_cast<size_t>(found - kSharedResourceNames.begin()),
                                   limits.amounts));
        continue;
      }
      if (child.key != "jobs" && child.key != "running") return Unknown(child, kUserKeys);
      const Result<uint64_t> jobs = ParseUint64(child.text);
      if (child.kind != Node::Kind::kScalar || !jobs.ok() || *jobs < 1 || *jobs > kMaxUserJobs) {
        return Bad(child, "a whole number from 1 to " + WithThousands(kMaxUserJobs));
      }
      (child.key == "jobs" ? limits.jobs : limits.running) = static_cast<uint32_t>(*jobs);
    }
    return {};
  }

  Status ReadRunTime(const Node& node, Duration& time) const {
    const auto read = ParseDuration(node.text);
    constexpr Duration kSecond = std::chrono::seconds(1);
    if (!read.ok() || *read < kSecond || *read > kLongestRun || *read % kSecond != Duration(0)) {
      return Bad(node, "a whole number of seconds from 1s to a year, such as 90min or 24h");
    }
    time = *read;
    return {};
  }

  // "8", "0.125".
  static std::optional<int64_t> Thousandths(std::string_view text) {
    const size_t point = text.find('.');
    const Result<uint64_t> whole = ParseUint64(text.substr(0, point));
    if (!whole.ok() || *whole > static_cast<uint64_t>(kMaxQueueAmount) / 1000) return std::nullopt;
    int64_t thousandths = static_cast<int64_t>(*whole) * 1000;
    if (point == std::string_view::npos) return thousandths;
    std::string digits(text.substr(point + 1));
    if (digits.empty() || digits.size() > 3) return std::nullopt;
    digits.resize(3, '0');
    const Result<uint64_t> part = ParseUint64(digits);
    if (!part.ok()) return std::nullopt;
    return thousandths + static_cast<int64_t>(*part);
  }

  static std::optional<int64_t> Mebibytes(std::string_view text) {
    const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    const Result<uint64_t> number = ParseUint64(text.substr(0, end));
    const std::string_view unit = Trim(text.substr(end));
    const int64_t factor = unit == "MiB"   ? 1
                           : unit == "GiB" ? 1'024
                           : unit == "TiB" ? 1'024 * 1'024
                                           : 0;
    if (!number.ok() || *number > static_cast<uint64_t>(kMaxQueueAmount)) return std::nullopt;
    if (*number == 0) return 0;
    if (factor == 0 || static_cast<int64_t>(*number) > kMaxQueueAmount / factor)
      return std::nullopt;
    return static_cast<int64_t>(*number) * factor;
  }

  std::string_view source_;
};

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

std::string AmountYaml(size_t resource, int64_t amount) {
  if (resource == static_cast<size_t>(SharedResource::kMemory))
    return std::to_string(amount) + "MiB";
  return std::to_string(amount / 1000) + "." + std::to_string(1000 + amount % 1000).substr(1);
}

// The queue's quotas of one sort by device model; empty when none differs from `standard`.
std::string ModelsYaml(const QueueSpec& queue, int64_t ModelQuota::*quota, int64_t standard) {
  std::vector<std::string> parts;
  for (const ModelQuota& each : queue.models) {
    if (each.*quota == standard) continue;
    parts.push_back(Quoted(each.model) + ": " + AmountYaml(0, each.*quota));
  }
  return parts.empty() ? "" : "devices: {" + Join(parts, ", ") + "}";
}

// The amounts that differ from the default; nothing when none does.
std::string AmountsYaml(const char* key, const SharedAmounts& amounts,
                        const SharedAmounts& standard, const std::string& models) {
  std::vector<std::string> parts;
  for (size_t r = 0; r < kSharedResources; ++r) {
    if (amounts[r] == standard[r]) continue;
    parts.push_back(std::string(kSharedResourceNames[r]) + ": " + AmountYaml(r, amounts[r]));
  }
  if (!models.empty()) parts.push_back(models);
  return parts.empty() ? "" : "    " + std::string(key) + ": {" + Join(parts, ", ") + "}\n";
}

std::string UserLimitsYaml(const QueueSpec& queue) {
  const UserLimits& limits = queue.per_user;
  std::vector<std::string> parts;
  if (limits.jobs != kUnlimitedJobs) parts.push_back("jobs: " + std::to_string(limits.jobs));
  if (limits.running != kUnlimitedJobs) {
    parts.push_back("running: " + std::to_string(limits.running));
  }
  for (size_t r = 0; r < kSharedResources; ++r) {
    if (limits.amounts[r] == kUnlimited) continue;
    parts.push_back(std::string(kSharedResourceNames[r]) + ": " + AmountYaml(r, limits.amounts[r]));
  }
  const std::string models = ModelsYaml(queue, &ModelQuota::per_user, kUnlimited);
  if (!models.empty()) parts.push_back(models);
  return parts.empty() ? "" : "    per_user: {" + Join(parts, ", ") + "}\n";
}

std::string UsersYaml(const std::vector<std::string>& users) {
  std::vector<std::string> names;
  for (const std::string& user : users) names.push_back(Quoted(user));
  return names.empty() ? "" : "    users: [" + Join(names, ", ") + "]\n";
}

}  // namespace

Result<std::vector<QueueSpec>> internal::ReadQueueList(const Node& list, std::string_view source) {
  return QueueReader(source).ReadList(list);
}

Result<std::vector<QueueSpec>> ParseQueues(std::string_view text, std::string_view source) {
  ASSIGN_OR_RETURN(const Node root, internal::ParseDocument(text, source));
  return QueueReader(source).Read(root);
}

std::string ToYaml(const std::vector<QueueSpec>& queues) {
  std::string yaml = queues.empty() ? "queues: []\n" : "queues:\n";
  for (const QueueSpec& queue : queues) {
    yaml += "  - name: \"" + queue.name + "\"\n";
    if (!queue.parent.empty()) yaml += "    parent: \"" + queue.parent + "\"\n";
    yaml +=
        AmountsYaml("guarantee", queue.guarantee, {}, ModelsYaml(queue, &ModelQuota::guarantee, 0));
    yaml += AmountsYaml("limit", queue.limit, kUnlimitedAmounts,
                        ModelsYaml(queue, &ModelQuota::limit, kUnlimited));
    yaml += AmountsYaml("lend", queue.lend, kUnlimitedAmounts,
                        ModelsYaml(queue, &ModelQuota::lend, kUnlimited));
    yaml += "    weight: " + std::to_string(queue.weight) + "\n";
    yaml +=
        queue.order == QueueOrder::kPriority ? "    order: priority\n" : "    order: first-come\n";
    yaml += queue.reclaim ? "    reclaim: true\n" : "    reclaim: false\n";
    yaml += UsersYaml(queue.users);
    yaml += UserLimitsYaml(queue);
    if (queue.max_run_time > Duration(0)) {
      yaml += "    max_run_time: " + std::to_string(queue.max_run_time / std::chrono::seconds(1)) +
              "s\n";
    }
  }
  return yaml;
}

}  // namespace longhaul::spec
