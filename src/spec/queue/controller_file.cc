#include "spec/queue/controller_file.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "spec/internal/document.h"
#include "spec/internal/queue_list.h"

namespace longhaul::spec {

namespace {

using internal::Node;

constexpr auto kKeys = std::to_array<std::string_view>(
    {"cluster", "queues", "default_queue", "priorities", "scheduling", "tls"});
constexpr auto kTlsKeys = std::to_array<std::string_view>({"certificate", "key", "ca"});
constexpr auto kSchedulingKeys = std::to_array<std::string_view>(
    {"preemption", "backfill", "reservations", "evictions_a_day", "aging_period", "longest_wait",
     "reservation_idle", "fair_share", "usage_half_life", "elastic_period", "repair_patience",
     "snapshot_patience", "array_limit", "check_new_nodes"});
constexpr uint64_t kMaxCount = 10'000;
constexpr uint64_t kMaxArray = 100'000;
constexpr size_t kMaxPriorities = 1'000;
constexpr Duration kLongest = std::chrono::hours(24 * 365);

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= 63 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

class Reader {
 public:
  explicit Reader(std::string_view source) : source_(source) {}

  Result<ControllerSpec> Read(const Node& root) {
    if (root.kind == Node::Kind::kNull) return spec_;
    if (root.kind != Node::Kind::kMap) {
      return Refuse(root.line, "expected a map with keys such as 'queues'");
    }
    for (const Node& child : root.children) RETURN_IF_ERROR(ReadKey(child));
    // After all keys, since the default queue may be written above the list of queues.
    const bool known =
        spec_.default_queue.empty() ||
        std::any_of(spec_.queues.begin(), spec_.queues.end(),
                    [&](const QueueSpec& queue) { return queue.name == spec_.default_queue; });
    if (known) return spec_;
    return Refuse(internal::Find(root, "default_queue")->line,
                  "default_queue: there is no queue '" + spec_.default_queue + "'");
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

  Status Bad(const Node& node, const std::string& expected) const {
    return Refuse(node.line,
                  node.key + ": " +
                      (node.kind == Node::Kind::kScalar ? "'" + Printable(node.text, 40) + "'"
                                                        : std::string("this")) +
                      " is not " + expected);
  }

  Status ReadKey(const Node& node) {
    if (node.key == "queues") {
      ASSIGN_OR_RETURN(spec_.queues, internal::ReadQueueList(node, source_));
      return {};
    }
    if (node.key == "priorities") return ReadPriorities(node);
    if (node.key == "scheduling") {
      if (node.kind != Node::Kind::kMap) return Bad(node, "a map such as {preemption: false}");
      for (const Node& child : node.children) RETURN_IF_ERROR(ReadScheduling(child));
      return {};
    }
    if (node.key == "tls") return ReadTls(node);
    if (node.key == "cluster")
      return ReadPath(node, "the path of a cluster file", spec_.cluster_file);
    if (node.key != "default_queue") return Unknown(node, kKeys);
    if (node.kind != Node::Kind::kScalar || !IsName(node.text)) return Bad(node, "a queue's name");
    spec_.default_queue = node.text;
    return {};
  }

  Status ReadPath(const Node& node, const char* expected, std::string& target) const {
    constexpr size_t kLongestPath = 4'096;
    if (node.kind != Node::Kind::kScalar || node.text.empty() || node.text.size() > kLongestPath) {
      return Bad(node, expected);
    }
    target = node.text;
    return {};
  }

  Status ReadTls(const Node& node) {
    constexpr const char* kExpected = "a map such as {certificate: a.crt, key: a.key, ca: ca.crt}";
    if (node.kind != Node::Kind::kMap) return Bad(node, kExpected);
    for (const Node& child : node.children) {
      std::string* target = child.key == "certificate" ? &spec_.tls.certificate
                            : child.key == "key"       ? &spec_.tls.key
                            : child.key == "ca"        ? &spec_.tls.ca
                                                       : nullptr;
      if (target == nullptr) return Unknown(child, kTlsKeys);
      RETURN_IF_ERROR(ReadPath(child, "the path of a file in PEM", *target));
    }
    if (!spec_.tls.certificate.empty() && !spec_.tls.key.empty() && !spec_.tls.ca.empty())
      return {};
    return Bad(node, "all of certificate, key and ca");
  }

  // A name does not look like a number, so that a job's priority is either one or the other.
  Status ReadPriorities(const Node& node) {
    if (node.kind != Node::Kind::kMap || node.children.size() > kMaxPriorities) {
      return Bad(node, "a map of names and numbers such as {low: -100, high: 100}");
    }
    for (const Node& child : node.children) {
      if (!IsName(child.key) || (child.key[0] >= '0' && child.key[0] <= '9') ||
          child.key[0] == '-') {
        return Refuse(child.key_line, "'" + Printable(child.key, 40) +
                                          "' is not a priority's name: letters, digits, '-', '_' "
                                          "and '.', not beginning with a digit or '-'");
      }
      const bool negative = child.text.starts_with('-');
      const auto number = ParseUint64(std::string_view(child.text).substr(negative ? 1 : 0));
      if (child.kind != Node::Kind::kScalar || !number.ok() ||
          *number > static_cast<uint64_t>(kMaxJobPriority)) {
        return Bad(child, "a whole number from -1,000,000 to 1,000,000");
      }
      spec_.priorities[child.key] = static_cast<int32_t>(*number) * (negative ? -1 : 1);
    }
    return {};
  }

  Status ReadScheduling(const Node& node) {
    if (node.key == "preemption") return ReadSwitch(node, spec_.preemption);
    if (node.key == "backfill") return ReadSwitch(node, spec_.backfill);
    if (node.key == "reservations") return ReadCount(node, spec_.reservations, 1);
    if (node.key == "evictions_a_day") return ReadCount(node, spec_.evictions_a_day, 0);
    if (node.key == "aging_period") return ReadTime(node, spec_.aging_period);
    if (node.key == "longest_wait") {
      if (node.kind == Node::Kind::kScalar && node.text == "never") {
        spec_.longest_wait = Duration(0);
        return {};
      }
      return ReadTime(node, spec_.longest_wait);
    }
    if (node.key == "reservation_idle") return ReadShare(node, spec_.reservation_idle_percent);
    if (node.key == "fair_share") {
      if (node.kind != Node::Kind::kScalar || (node.text != "present" && node.text != "history")) {
        return Bad(node, "'present' or 'history'");
      }
      spec_.fair_share_history = node.text == "history";
      return {};
    }
    if (node.key == "usage_half_life") return ReadTime(node, spec_.usage_half_life);
    if (node.key == "elastic_period") return ReadTime(node, spec_.elastic_period);
    if (node.key == "repair_patience") return ReadTime(node, spec_.repair_patience);
    if (node.key == "snapshot_patience") return ReadTime(node, spec_.snapshot_patience);
    if (node.key == "array_limit") return ReadCount(node, spec_.array_limit, 1, kMaxArray);
    if (node.key == "check_new_nodes") return ReadSwitch(node, spec_.check_new_nodes);
    return Unknown(node, kSchedulingKeys);
  }

  // 0 is without a limit.
  Status ReadShare(const Node& node, uint32_t& percent) const {
    const bool scalar = node.kind == Node::Kind::kScalar;
    if (scalar && node.text == "unlimited") {
      percent = 0;
      return {};
    }
    std::string_view text = node.text;
    const bool has_sign = scalar && text.ends_with('%');
    if (has_sign) text.remove_suffix(1);
    const auto number = ParseUint64(text);
    if (!has_sign || !number.ok() || *number < 1 || *number > 1'000) {
      return Bad(node, "a whole percentage from 1% to 1000%, or unlimited");
    }
    percent = static_cast<uint32_t>(*number);
    return {};
  }

  Status ReadSwitch(const Node& node, bool& value) const {
    if (node.kind != Node::Kind::kScalar || (node.text != "true" && node.text != "false")) {
      return Bad(node, "'true' or 'false'");
    }
    value = node.text == "true";
    return {};
  }

  Status ReadCount(const Node& node, uint32_t& value, uint64_t least,
                   uint64_t most = kMaxCount) const {
    const auto number = ParseUint64(node.text);
    if (node.kind != Node::Kind::kScalar || !number.ok() || *number < least || *number > most) {
      return Bad(node, "a whole number from " + std::to_string(least) + " to " +
                           WithThousands(static_cast<int64_t>(most)));
    }
    value = static_cast<uint32_t>(*number);
    return {};
  }

  Status ReadTime(const Node& node, Duration& value) const {
    const auto time = ParseDuration(node.text);
    if (node.kind != Node::Kind::kScalar || !time.ok() || *time <= Duration(0) ||
        *time > kLongest) {
      return Bad(node, "a time such as 30s, 10min or 6h, of at most a year");
    }
    value = *time;
    return {};
  }

  std::string_view source_;
  ControllerSpec spec_;
};

}  // namespace

Result<ControllerSpec> ParseControllerFile(std::string_view text, std::string_view source) {
  if (Trim(text).empty()) return ControllerSpec();
  ASSIGN_OR_RETURN(const Node root, internal::ParseDocument(text, source));
  return Reader(source).Read(root);
}

}  // namespace longhaul::spec
