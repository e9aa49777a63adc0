#include "spec/job/fault_plan.h"

#include <array>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::spec {

namespace {

constexpr size_t kMaxFaults = 1'000;
constexpr size_t kMaxPlanBytes = 64 * 1'024;
constexpr uint64_t kMaxTarget = 1'000'000;
constexpr uint64_t kMaxStep = 1'000'000'000'000;
// A stopped worker is resumed by the runtime long before; also keeps durations exact as doubles.
constexpr Duration kMaxStop = std::chrono::hours(24);

constexpr auto kVerbs = std::to_array<std::string_view>({"kill", "stop"});
constexpr auto kVictims =
    std::to_array<std::string_view>({"worker", "agent", "node", "controller"});

std::vector<std::string_view> PlanWords(std::string_view text) {
  std::vector<std::string_view> words;
  constexpr std::string_view kSpace = " \t\r\n";
  size_t at = text.find_first_not_of(kSpace);
  while (at != std::string_view::npos) {
    const size_t end = text.find_first_of(kSpace, at);
    words.push_back(text.substr(at, end == std::string_view::npos ? end : end - at));
    at = text.find_first_not_of(kSpace, end);
  }
  return words;
}

// Takes one fault's words from the left; each function's error names the expected word.
class FaultReader {
 public:
  explicit FaultReader(std::string_view text) : text_(text), words_(PlanWords(text)) {}

  Result<PlannedFault> Read() {
    PlannedFault fault;
    ASSIGN_OR_RETURN(const std::string_view verb, OneOf(kVerbs));
    if (verb == "stop") {
      RETURN_IF_ERROR(Expect("worker"));
      fault.kind = FaultKind::kStopWorker;
      ASSIGN_OR_RETURN(const uint64_t rank, Number("a worker's rank", 0, kMaxTarget));
      fault.target = static_cast<uint32_t>(rank);
      RETURN_IF_ERROR(Expect("for"));
      RETURN_IF_ERROR(ReadDuration(fault));
    } else {
      RETURN_IF_ERROR(ReadVictim(fault));
    }
    RETURN_IF_ERROR(Expect("at"));
    RETURN_IF_ERROR(Expect("step"));
    ASSIGN_OR_RETURN(fault.step, Number("a step", 1, kMaxStep));
    if (next_ < words_.size()) {
      return Refuse("ends with '" + Printable(words_[next_], 40) +
                    "' too many; faults are separated by ';'");
    }
    return fault;
  }

 private:
  Status Refuse(const std::string& why) const {
    return InvalidArgument("fault '" + Printable(Trim(text_), 80) + "' " + why);
  }

  Status ReadVictim(PlannedFault& fault) {
    ASSIGN_OR_RETURN(const std::string_view victim, OneOf(kVictims));
    if (victim == "worker") {
      fault.kind = FaultKind::kKillWorker;
      ASSIGN_OR_RETURN(const uint64_t rank, Number("a worker's rank", 0, kMaxTarget));
      fault.target = static_cast<uint32_t>(rank);
    } else if (victim == "agent" || victim == "node") {
      fault.kind = victim == "agent" ? FaultKind::kKillAgent : FaultKind::kKillNode;
      const std::string what = victim == "agent" ? "an agent's number" : "a node's number";
      ASSIGN_OR_RETURN(const uint64_t number, Number(what, 1, kMaxTarget));
      fault.target = static_cast<uint32_t>(number - 1);
    } else {
      fault.kind = FaultKind::kKillController;
    }
    return {};
  }

  Status ReadDuration(PlannedFault& fault) {
    if (next_ == words_.size()) return Refuse("lacks a duration at its end, such as 20s");
    const std::string_view word = words_[next_++];
    const Result<Duration> duration = ParseDuration(word);
    if (!duration.ok()) return Refuse("has a bad duration: " + duration.status().message());
    if (*duration <= Duration(0) || *duration > kMaxStop) {
      return Refuse("stops for '" + Printable(word, 40) + "': above zero and at most 1d, please");
    }
    fault.duration = *duration;
    return {};
  }

  Status Expect(std::string_view word) { return OneOf({&word, 1}).status(); }

  Result<std::string_view> OneOf(std::span<const std::string_view> choices) {
    std::string expected;
    for (const std::string_view word : choices) {
      if (!expected.empty()) expected += word == choices.back() ? " or " : ", ";
      expected += "'" + std::string(word) + "'";
    }
    if (next_ == words_.size()) return Refuse("lacks " + expected + " at its end");
    const std::string_view word = words_[next_++];
    for (const std::string_view candidate : choices) {
      if (word == candidate) return word;
    }
    const auto nearest = Nearest(word, choices);
    return Refuse("has '" + Printable(word, 40) + "' where " + expected + " belongs" +
                  (nearest ? ": did you mean '" + std::string(*nearest) + "'?" : ""));
  }

  Result<uint64_t> Number(const std::string& what, uint64_t min, uint64_t max) {
    if (next_ == words_.size()) return Refuse("lacks " + what + " at its end");
    const std::string_view word = words_[next_++];
    const Result<uint64_t> number = ParseUint64(word);
    if (!number.ok()) return Refuse("has '" + Printable(word, 40) + "' where " + what + " belongs");
    if (*number < min || *number > max) {
      return Refuse("has " + what + " out of range: '" + Printable(word, 40) + "' is not in " +
                    WithThousands(static_cast<int64_t>(min)) + " to " +
                    WithThousands(static_cast<int64_t>(max)));
    }
    return *number;
  }

  std::string_view text_;
  std::vector<std::string_view> words_;
  size_t next_ = 0;
};

// Exact, unlike base's ToString(Duration): what it writes is read back to the same nanosecond.
std::string ExactDuration(Duration duration) {
  static constexpr std::pair<int64_t, const char*> kUnits[] = {
      {3'600'000'000'000, "h"}, {60'000'000'000, "min"}, {1'000'000'000, "s"},
      {1'000'000, "ms"},        {1'000, "us"},           {1, "ns"}};
  for (const auto& [nanoseconds, unit] : kUnits) {
    if (duration.count() % nanoseconds == 0) {
      return std::to_string(duration.count() / nanoseconds) + unit;
    }
  }
  return "";
}

}  // namespace

Result<std::vector<PlannedFault>> ParseFaultPlan(std::string_view text) {
  if (text.size() > kMaxPlanBytes) {
    return InvalidArgument("a fault plan has at most 64 KiB, not " + std::to_string(text.size()) +
                           " bytes");
  }
  std::vector<PlannedFault> faults;
  for (const std::string_view part : Split(text, ';')) {
    if (Trim(part).empty()) {
      return InvalidArgument(
          "fault " + std::to_string(faults.size() + 1) +
          " is empty: write 'kill worker 1 at step 40; kill agent 2 at step 90'");
    }
    if (faults.size() == kMaxFaults) return InvalidArgument("more than 1,000 faults are planned");
    ASSIGN_OR_RETURN(const PlannedFault fault, FaultReader(part).Read());
    faults.push_back(fault);
  }
  return faults;
}

std::string ToString(const PlannedFault& fault) {
  const std::string at = " at step " + std::to_string(fault.step);
  const std::string target = std::to_string(fault.target);
  switch (fault.kind) {
    case FaultKind::kKillWorker:
      return "kill worker " + target + at;
    case FaultKind::kKillAgent:
      return "kill agent " + std::to_string(static_cast<uint64_t>(fault.target) + 1) + at;
    case FaultKind::kKillNode:
      return "kill node " + std::to_string(static_cast<uint64_t>(fault.target) + 1) + at;
    case FaultKind::kKillController:
      return "kill controller" + at;
    case FaultKind::kStopWorker:
      return "stop worker " + target + " for " + ExactDuration(fault.duration) + at;
  }
  CHECK(false) << "no such kind of fault";
  return "";
}

}  // namespace longhaul::spec
