#include "spec/scenario/scenario.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "spec/internal/document.h"
#include "spec/job/job_name.h"

namespace longhaul::spec {
namespace {

using ScenarioNode = internal::Node;

constexpr uint64_t kMostScenarioNodes = 64;
constexpr uint64_t kMostScenarioWorkers = 256;
constexpr uint64_t kMostScenarioSteps = 100'000;
constexpr size_t kMostScenarioFaults = 64;
constexpr Duration kShortestStep = std::chrono::milliseconds(1);
constexpr Duration kLongestStep = std::chrono::minutes(1);
constexpr Duration kShortestFault = std::chrono::milliseconds(10);
constexpr Duration kLongestFault = std::chrono::minutes(10);
constexpr Duration kLongestDelay = std::chrono::seconds(10);
constexpr uint64_t kHighestRate = 100'000'000'000;

constexpr auto kScenarioKeys = std::to_array<std::string_view>(
    {"name", "nodes", "spares", "processes_per_node", "steps", "step", "snapshot_every", "faults"});
constexpr auto kFaultKeys = std::to_array<std::string_view>(
    {"at_step", "after", "fault", "rank", "node", "for", "delay", "rate"});
// In the order of ScenarioFaultKind.
constexpr auto kScenarioFaultNames =
    std::to_array<std::string_view>({"kill_worker", "stop_worker", "kill_agent", "power_off",
                                     "cut_link", "slow_link", "kill_controller", "full_disk"});

struct RateUnit {
  std::string_view name;
  uint64_t factor;
};
constexpr RateUnit kRateUnits[] = {{"kbit", 1'000}, {"mbit", 1'000'000}, {"gbit", 1'000'000'000}};

bool OfWorker(ScenarioFaultKind kind) {
  return kind == ScenarioFaultKind::kKillWorker || kind == ScenarioFaultKind::kStopWorker;
}

bool OfNode(ScenarioFaultKind kind) {
  return kind == ScenarioFaultKind::kKillAgent || kind == ScenarioFaultKind::kPowerOff ||
         kind == ScenarioFaultKind::kCutLink || kind == ScenarioFaultKind::kSlowLink;
}

bool Lasts(ScenarioFaultKind kind) { return kind != ScenarioFaultKind::kKillWorker; }

// The keys that a fault of this kind has, and must have, besides its time.
bool Takes(ScenarioFaultKind kind, std::string_view key) {
  if (key == "rank") return OfWorker(kind);
  if (key == "node") return OfNode(kind);
  if (key == "for") return Lasts(kind);
  if (key == "delay" || key == "rate") return kind == ScenarioFaultKind::kSlowLink;
  return true;
}

std::string KeysOf(ScenarioFaultKind kind) {
  std::vector<std::string> keys;
  for (const std::string_view key : kFaultKeys) {
    const bool time = key == "at_step" || key == "after" || key == "fault";
    if (!time && Takes(kind, key)) keys.emplace_back(key);
  }
  return Join(keys, ", ");
}

class ScenarioReader {
 public:
  explicit ScenarioReader(std::string_view source) : source_(source) {}

  Result<Scenario> Read(const ScenarioNode& root) {
    if (root.kind != ScenarioNode::Kind::kMap) {
      return Refuse(root.line, "expected a map with the keys " + AllScenarioKeys());
    }
    for (const ScenarioNode& child : root.children) {
      if (child.key != "faults") RETURN_IF_ERROR(ReadKey(child));
    }
    for (const std::string_view key : {"name", "nodes", "steps", "step"}) {
      if (internal::Find(root, key) == nullptr) {
        return Refuse(root.line, std::string(key) + " is missing: add " + std::string(key) + ": " +
                                     std::string(key == "name"   ? "worker-killed"
                                                 : key == "step" ? "50ms"
                                                                 : "2"));
      }
    }
    if (scenario_.workers() > kMostScenarioWorkers) {
      return Refuse(root.line, "processes_per_node: " + std::to_string(scenario_.workers()) +
                                   " workers are more than the limit of " +
                                   std::to_string(kMostScenarioWorkers) +
                                   ": use fewer nodes or processes");
    }
    if (const ScenarioNode* faults = internal::Find(root, "faults")) {
      RETURN_IF_ERROR(ReadFaults(*faults));
    }
    return std::move(scenario_);
  }

 private:
  Status Refuse(int line, const std::string& why) const {
    return InvalidArgument(std::string(source_) + ":" + std::to_string(line) + ": " + why);
  }

  // "KEY is VALUE, expected EXPECTED".
  Status Unexpected(const ScenarioNode& node, const std::string& expected) const {
    const char* kind = node.kind == ScenarioNode::Kind::kList  ? "a list"
                       : node.kind == ScenarioNode::Kind::kMap ? "a map"
                                                               : "empty";
    const std::string value = node.kind == ScenarioNode::Kind::kScalar
                                  ? "'" + Printable(node.text, 40) + "'"
                                  : std::string(kind);
    return Refuse(node.line, node.key + " is " + value + ", expected " + expected);
  }

  static std::string AllScenarioKeys() {
    return Join({kScenarioKeys.begin(), kScenarioKeys.end()}, ", ");
  }

  Status UnknownKey(const ScenarioNode& node, const char* where,
                    std::span<const std::string_view> known) const {
    const auto nearest = Nearest(node.key, known);
    return Refuse(node.key_line,
                  std::string(where) + "unknown key '" + Printable(node.key, 40) + "'" +
                      (nearest ? ": did you mean '" + std::string(*nearest) + "'?"
                               : ", expected one of " + Join({known.begin(), known.end()}, ", ")));
  }

  Result<uint64_t> Number(const ScenarioNode& node, uint64_t min, uint64_t max) const {
    const auto number = node.kind == ScenarioNode::Kind::kScalar && !node.quoted
                            ? ParseUint64(node.text)
                            : Result<uint64_t>(InvalidArgument(""));
    if (!number.ok() || *number < min || *number > max) {
      return Unexpected(node,
                        "a number from " + std::to_string(min) + " to " + std::to_string(max));
    }
    return *number;
  }

  Result<uint32_t> Small(const ScenarioNode& node, uint64_t min, uint64_t max) const {
    ASSIGN_OR_RETURN(const uint64_t number, Number(node, min, max));
    return static_cast<uint32_t>(number);
  }

  Result<Duration> Time(const ScenarioNode& node, Duration min, Duration max) const {
    const auto duration = node.kind == ScenarioNode::Kind::kScalar
                              ? ParseDuration(node.text)
                              : Result<Duration>(InvalidArgument(""));
    if (!duration.ok() || *duration < min || *duration > max) {
      return Unexpected(
          node, "a duration from " + longhaul::ToString(min) + " to " + longhaul::ToString(max));
    }
    return *duration;
  }

  // A whole number and a unit, such as "4mbit".
  Result<uint64_t> Rate(const ScenarioNode& node) const {
    if (node.kind == ScenarioNode::Kind::kScalar) {
      for (const RateUnit& unit : kRateUnits) {
        if (!node.text.ends_with(unit.name)) continue;
        const auto number =
            ParseUint64(std::string_view(node.text).substr(0, node.text.size() - unit.name.size()));
        const bool fits = number.ok() && *number <= kHighestRate / unit.factor;
        if (fits && *number >= 1) return *number * unit.factor;
      }
    }
    return Unexpected(node, "a rate from 1kbit to 100gbit");
  }

  Status ReadKey(const ScenarioNode& node) {
    if (node.key == "name") {
      const bool good = node.kind == ScenarioNode::Kind::kScalar && IsJobName(node.text);
      if (!good) return Unexpected(node, "1 to 63 letters, digits, '-', '_' and '.'");
      scenario_.name = node.text;
    } else if (node.key == "nodes") {
      ASSIGN_OR_RETURN(scenario_.nodes, Small(node, 1, kMostScenarioNodes));
    } else if (node.key == "spares") {
      ASSIGN_OR_RETURN(scenario_.spares, Small(node, 0, kMostScenarioNodes));
    } else if (node.key == "processes_per_node") {
      ASSIGN_OR_RETURN(scenario_.processes_per_node, Small(node, 1, 64));
    } else if (node.key == "steps") {
      ASSIGN_OR_RETURN(scenario_.steps, Number(node, 1, kMostScenarioSteps));
    } else if (node.key == "step") {
      ASSIGN_OR_RETURN(scenario_.step, Time(node, kShortestStep, kLongestStep));
    } else if (node.key == "snapshot_every") {
      ASSIGN_OR_RETURN(scenario_.snapshot_every, Number(node, 1, kMostScenarioSteps));
    } else {
      return UnknownKey(node, "", kScenarioKeys);
    }
    return {};
  }

  Status ReadFaults(const ScenarioNode& list) {
    if (list.kind != ScenarioNode::Kind::kList) {
      return Unexpected(list, "a list such as [{at_step: 40, fault: kill_worker, rank: 1}]");
    }
    if (list.children.size() > kMostScenarioFaults) {
      return Refuse(list.line, "faults: " + std::to_string(list.children.size()) +
                                   " faults are more than the limit of " +
                                   std::to_string(kMostScenarioFaults));
    }
    uint64_t last_step = 0;
    for (const ScenarioNode& child : list.children) {
      ASSIGN_OR_RETURN(ScenarioFault fault, ReadFault(child));
      if (fault.at_step.has_value()) {
        if (*fault.at_step < last_step) {
          return Refuse(child.line, "at_step is " + std::to_string(*fault.at_step) +
                                        ", but the fault before it is at step " +
                                        std::to_string(last_step) +
                                        ": list the faults in the order in which they happen");
        }
        last_step = *fault.at_step;
      }
      scenario_.faults.push_back(fault);
    }
    return {};
  }

  Result<ScenarioFault> ReadFault(const ScenarioNode& node) const {
    const ScenarioNode* name = internal::Find(node, "fault");
    if (node.kind != ScenarioNode::Kind::kMap || name == nullptr) {
      return Refuse(node.line,
                    "faults: expected a map such as {at_step: 40, fault: kill_worker, rank: 1}");
    }
    const auto* const found =
        std::find(kScenarioFaultNames.begin(), kScenarioFaultNames.end(), name->text);
    if (name->kind != ScenarioNode::Kind::kScalar || found == kScenarioFaultNames.end()) {
      return Unexpected(
          *name, "one of " + Join({kScenarioFaultNames.begin(), kScenarioFaultNames.end()}, ", "));
    }
    ScenarioFault fault;
    fault.kind = static_cast<ScenarioFaultKind>(found - kScenarioFaultNames.begin());
    fault.line = node.line;
    for (const ScenarioNode& child : node.children) {
      const bool known =
          std::find(kFaultKeys.begin(), kFaultKeys.end(), child.key) != kFaultKeys.end();
      if (!known) return UnknownKey(child, "faults: ", kFaultKeys);
      if (!Takes(fault.kind, child.key)) {
        const std::string keys = KeysOf(fault.kind);
        return Refuse(child.key_line, child.key + " has no effect on " + name->text +
                                          ", which has the keys " + keys + ": remove it");
      }
      RETURN_IF_ERROR(ReadFaultKey(child, fault));
    }
    RETURN_IF_ERROR(CheckComplete(node, *name, fault));
    return fault;
  }

  Status ReadFaultKey(const ScenarioNode& node, ScenarioFault& fault) const {
    if (node.key == "at_step") {
      ASSIGN_OR_RETURN(fault.at_step, Number(node, 1, scenario_.steps));
    } else if (node.key == "after") {
      ASSIGN_OR_RETURN(fault.after, Time(node, Duration(0), kLongestFault));
    } else if (node.key == "rank") {
      ASSIGN_OR_RETURN(fault.rank, Small(node, 0, scenario_.workers() - 1));
    } else if (node.key == "node") {
      ASSIGN_OR_RETURN(fault.node, Small(node, 1, scenario_.nodes));
    } else if (node.key == "for") {
      ASSIGN_OR_RETURN(fault.lasts, Time(node, kShortestFault, kLongestFault));
    } else if (node.key == "delay") {
      ASSIGN_OR_RETURN(fault.delay, Time(node, std::chrono::milliseconds(1), kLongestDelay));
    } else if (node.key == "rate") {
      ASSIGN_OR_RETURN(fault.rate_bits_per_s, Rate(node));
    }
    return {};
  }

  // Every key that the kind takes is there, and exactly one time.
  Status CheckComplete(const ScenarioNode& node, const ScenarioNode& name,
                       const ScenarioFault& fault) const {
    const bool after = internal::Find(node, "after") != nullptr;
    if (after == fault.at_step.has_value()) {
      return Refuse(node.line, "faults: expected either at_step or after, such as at_step: 40");
    }
    if (after && scenario_.faults.empty()) {
      return Refuse(node.line,
                    "after is the time since the fault before it, and this is the first one: use "
                    "at_step");
    }
    const bool slow = fault.kind == ScenarioFaultKind::kSlowLink;
    if (slow && fault.delay == Duration(0) && fault.rate_bits_per_s == 0) {
      return Refuse(node.line, "slow_link: expected delay, rate or both, such as delay: 20ms");
    }
    for (const std::string_view key : {"rank", "node", "for"}) {
      if (Takes(fault.kind, key) && internal::Find(node, key) == nullptr) {
        return Refuse(node.line, name.text + " has no " + std::string(key) +
                                     ", expected the keys " + KeysOf(fault.kind));
      }
    }
    return {};
  }

  const std::string_view source_;
  Scenario scenario_;
};

}  // namespace

std::string_view NameOf(ScenarioFaultKind kind) {
  return kScenarioFaultNames.at(static_cast<size_t>(kind));
}

std::string TargetOf(const ScenarioFault& fault) {
  if (OfWorker(fault.kind)) return "worker " + std::to_string(fault.rank);
  if (OfNode(fault.kind)) return "node " + std::to_string(fault.node);
  return "";
}

Result<Scenario> ParseScenario(std::string_view text, std::string_view source) {
  ASSIGN_OR_RETURN(const ScenarioNode root, internal::ParseDocument(text, source));
  return ScenarioReader(source).Read(root);
}

}  // namespace longhaul::spec
