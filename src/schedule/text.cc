#include "schedule/text.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"

namespace longhaul::schedule {
namespace {

// The longer names first: "SendF" is not an F.
constexpr std::array<std::pair<std::string_view, Kind>, 7> kNames{{
    {"SendF", Kind::kSendForward},
    {"RecvF", Kind::kReceiveForward},
    {"SendB", Kind::kSendBackward},
    {"RecvB", Kind::kReceiveBackward},
    {"F", Kind::kForward},
    {"B", Kind::kBackward},
    {"W", Kind::kWeights},
}};
constexpr std::array<std::pair<std::string_view, Placement>, 2> kPlacements{{
    {"loop", Placement::kLoop},
    {"v", Placement::kV},
}};
constexpr size_t kLongestQuote = 40;

std::string Quoted(std::string_view word) {
  return "'" + std::string(word.substr(0, kLongestQuote)) + "'";
}

std::vector<std::string_view> WordsOf(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < line.size();) {
    const size_t begin = line.find_first_not_of(" \t\r", at);
    if (begin == std::string_view::npos) break;
    at = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.push_back(line.substr(begin, at - begin));
  }
  return words;
}

class Parser {
 public:
  Result<Schedule> Parse(std::string_view text) {
    for (const std::string_view whole : Split(text, '\n')) {
      ++line_;
      const std::vector<std::string_view> words = WordsOf(whole.substr(0, whole.find('#')));
      if (words.empty()) continue;
      RETURN_IF_ERROR(has_shape_ ? TakeRank(words) : TakeShape(words));
    }
    if (!has_shape_) {
      return InvalidArgument(
          "the schedule is empty, expected a first line such as "
          "'ranks 2 micro-batches 3 chunks 1 placement loop'");
    }
    for (uint32_t rank = 0; rank < schedule_.shape.ranks; ++rank) {
      if (!seen_[rank]) {
        return InvalidArgument("there is no line 'rank " + std::to_string(rank) + ":', expected " +
                               std::to_string(schedule_.shape.ranks) + " ranks");
      }
    }
    return std::move(schedule_);
  }

 private:
  Status Error(const std::string& what) const {
    return InvalidArgument("line " + std::to_string(line_) + ": " + what);
  }

  Result<uint32_t> Number(std::string_view name, std::string_view text, uint32_t least,
                          uint32_t most) const {
    const Result<uint64_t> number = ParseUint64(text);
    if (number.ok() && *number >= least && *number <= most) return static_cast<uint32_t>(*number);
    return Error(std::string(name) + " is " + Quoted(text) + ", expected a number from " +
                 std::to_string(least) + " to " + std::to_string(most));
  }

  Status TakeShape(const std::vector<std::string_view>& words) {
    constexpr std::array<std::string_view, 4> kKeys = {"ranks", "micro-batches", "chunks",
                                                       "placement"};
    for (size_t i = 0; i < kKeys.size(); ++i) {
      if (words.size() == 2 * kKeys.size() && words[2 * i] == kKeys[i]) continue;
      return Error(
          "expected 'ranks R micro-batches M chunks C placement loop', with numbers for R, M and "
          "C");
    }
    Shape& shape = schedule_.shape;
    ASSIGN_OR_RETURN(shape.ranks, Number("ranks", words[1], 1, kMostRanks));
    ASSIGN_OR_RETURN(shape.micro_batches, Number("micro-batches", words[3], 1, kMostMicroBatches));
    ASSIGN_OR_RETURN(shape.chunks, Number("chunks", words[5], 1, kMostChunks));
    std::optional<Placement> placement;
    for (const auto& [name, each] : kPlacements) {
      if (name == words[7]) placement = each;
    }
    if (!placement.has_value()) {
      return Error("placement is " + Quoted(words[7]) + ", expected loop or v");
    }
    shape.placement = *placement;
    if (shape.placement == Placement::kV && shape.chunks != 2) {
      return Error("placement v needs 2 chunks, not " + std::to_string(shape.chunks));
    }
    schedule_.ranks.resize(shape.ranks);
    seen_.resize(shape.ranks);
    has_shape_ = true;
    return {};
  }

  Status TakeRank(const std::vector<std::string_view>& words) {
    if (words.size() < 2 || words[0] != "rank" || !words[1].ends_with(':')) {
      return Error("starts with " + Quoted(words[0]) + ", expected 'rank R:'");
    }
    const std::string_view digits = words[1].substr(0, words[1].size() - 1);
    ASSIGN_OR_RETURN(const uint32_t rank, Number("rank", digits, 0, schedule_.shape.ranks - 1));
    if (seen_[rank]) return Error("rank " + std::to_string(rank) + " has a line already");
    seen_[rank] = true;
    std::vector<Group>& groups = schedule_.ranks[rank];
    bool open = false;
    for (size_t i = 2; i < words.size(); ++i) {
      std::string_view word = words[i];
      const bool opens = word.starts_with('{');
      const bool closes = word.ends_with('}');
      if (opens) word.remove_prefix(1);
      if (closes && !word.empty()) word.remove_suffix(1);
      if (opens && open) return Error(Quoted(words[i]) + " opens a brace in a brace");
      if (opens || !open) groups.emplace_back();
      open = open || opens;
      if (closes && !open) return Error(Quoted(words[i]) + " closes a brace that is not open");
      ASSIGN_OR_RETURN(const Action action, TakeAction(word));
      if (open && action.Computes()) return Error(Quoted(word) + " in braces is no transfer");
      groups.back().push_back(action);
      if (closes) open = false;
    }
    if (open) return Error("a brace is not closed");
    return {};
  }

  Result<Action> TakeAction(std::string_view word) {
    if (++actions_ > kMostActions) {
      return Error("there are more than " + std::to_string(kMostActions) + " actions");
    }
    for (const auto& [name, kind] : kNames) {
      if (!word.starts_with(name)) continue;
      const std::string_view numbers = word.substr(name.size());
      const size_t point = numbers.find('.');
      if (point == std::string_view::npos) break;
      const Shape& shape = schedule_.shape;
      Action action{kind, 0, 0};
      ASSIGN_OR_RETURN(action.micro_batch, Number("the micro-batch", numbers.substr(0, point), 0,
                                                  shape.micro_batches - 1));
      ASSIGN_OR_RETURN(action.chunk,
                       Number("the chunk", numbers.substr(point + 1), 0, shape.chunks - 1));
      return action;
    }
    return Error(Quoted(word) +
                 " is no action, expected F, B, W, SendF, RecvF, SendB or RecvB with a "
                 "micro-batch and a chunk, such as F0.0");
  }

  Schedule schedule_;
  std::vector<bool> seen_;
  bool has_shape_ = false;
  uint64_t line_ = 0;
  uint64_t actions_ = 0;
};

}  // namespace

std::string ToString(const Action& action) {
  std::string text;
  for (const auto& [name, kind] : kNames) {
    if (kind == action.kind) text = name;
  }
  return text + std::to_string(action.micro_batch) + "." + std::to_string(action.chunk);
}

Result<Schedule> ParseSchedule(std::string_view text) { return Parser().Parse(text); }

std::string ToText(const Schedule& schedule) {
  const Shape& shape = schedule.shape;
  std::string text = "ranks " + std::to_string(shape.ranks) + " micro-batches " +
                     std::to_string(shape.micro_batches) + " chunks " +
                     std::to_string(shape.chunks) + " placement " +
                     (shape.placement == Placement::kV ? "v" : "loop") + "\n";
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    text += "rank " + std::to_string(rank) + ":";
    for (const Group& group : schedule.ranks[rank]) {
      text += group.size() > 1 ? " {" : " ";
      for (size_t i = 0; i < group.size(); ++i) {
        text += (i > 0 ? " " : "") + ToString(group[i]);
      }
      if (group.size() > 1) text += "}";
    }
    text += "\n";
  }
  return text;
}

}  // namespace longhaul::schedule
