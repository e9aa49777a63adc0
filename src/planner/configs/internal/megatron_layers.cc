#include "planner/configs/internal/megatron_layers.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace longhaul::planner::configs::internal {
namespace {

constexpr size_t kMostLetters = 10'000;

// "t*3" and "(t|)*2" written out.
class Letters {
 public:
  explicit Letters(std::string_view text) : text_(text) {}

  Result<std::string> Run() {
    RETURN_IF_ERROR(Read(0));
    if (at_ < text_.size()) return Wrong("a bracket that nothing opened");
    return out_;
  }

 private:
  Status Wrong(const std::string& what) const {
    return InvalidArgument("has " + what + " at character " + std::to_string(at_ + 1) + " of '" +
                           Printable(text_, 80) + "'");
  }

  Status Read(int depth) {
    while (at_ < text_.size() && text_[at_] != ')') {
      const char c = text_[at_];
      const size_t begin = out_.size();
      if (c == '(') {
        if (depth > 4) return Wrong("brackets more than four deep");
        ++at_;
        RETURN_IF_ERROR(Read(depth + 1));
        if (at_ == text_.size()) return Wrong("no closing bracket");
        ++at_;
      } else if (std::string_view("EtmL|").find(c) != std::string_view::npos) {
        out_ += c;
        ++at_;
      } else if (c == ',' || c == ' ') {
        ++at_;
        continue;
      } else {
        return Wrong(std::string("the letter ") + Printable(std::string(1, c)));
      }
      RETURN_IF_ERROR(Repeat(begin));
    }
    return {};
  }

  // "*3" after what was written from `begin` on.
  // The limits are checked before the text is written, since nested repeats grow as a product.
  Status Repeat(size_t begin) {
    if (at_ == text_.size() || text_[at_] != '*') return {};
    size_t end = ++at_;
    while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9') ++end;
    const auto times = ParseUint64(text_.substr(at_, end - at_));
    const std::string unit = out_.substr(begin);
    if (!times.ok() || *times > kMostLetters || unit.size() * *times > kMostLetters) {
      return Wrong("a number of repeats that cannot be");
    }
    at_ = end;
    out_.resize(begin);
    for (uint64_t i = 0; i < *times; ++i) out_ += unit;
    return out_.size() > kMostLetters ? Wrong("too many layers") : Status();
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string out_;
};

// "([0]*3+[1]*58)" as zeros and ones; nothing where it is not of this form.
std::vector<bool> ExpertPattern(std::string_view text) {
  std::vector<bool> pattern;
  while (text.starts_with('(') && text.ends_with(')')) {
    text.remove_prefix(1);
    text.remove_suffix(1);
  }
  for (std::string_view part : Split(text, '+')) {
    part = Trim(part);
    const size_t close = part.find(']');
    if (!part.starts_with('[') || close == std::string_view::npos) return {};
    std::vector<bool> unit;
    for (std::string_view entry : Split(part.substr(1, close - 1), ',')) {
      entry = Trim(entry);
      if (entry != "0" && entry != "1") return {};
      unit.push_back(entry == "1");
    }
    uint64_t times = 1;
    std::string_view rest = Trim(part.substr(close + 1));
    if (!rest.empty()) {
      if (!rest.starts_with('*')) return {};
      const auto number = ParseUint64(Trim(rest.substr(1)));
      if (!number.ok() || *number > kMostLetters) return {};
      times = *number;
    }
    if (pattern.size() + unit.size() * times > kMostLetters) return {};
    for (uint64_t i = 0; i < times; ++i) pattern.insert(pattern.end(), unit.begin(), unit.end());
  }
  return pattern;
}

}  // namespace

Result<std::vector<uint32_t>> ParseStageLetters(std::string_view text) {
  ASSIGN_OR_RETURN(const std::string letters, Letters(text).Run());
  std::vector<uint32_t> layers;
  for (const std::string_view stage : Split(letters, '|')) {
    layers.push_back(static_cast<uint32_t>(std::count(stage.begin(), stage.end(), 't')));
  }
  return layers;
}

Status ParseExpertLayers(std::string_view text, uint32_t layers, spec::Experts& experts) {
  std::vector<bool> pattern;
  if (const auto every = ParseUint64(text); every.ok() && *every >= 1 && *every <= kMostLetters) {
    // Megatron counts from the first layer, which has experts.
    for (uint32_t i = 0; i < layers; ++i) pattern.push_back(i % *every == 0);
  } else {
    pattern = ExpertPattern(text);
  }
  if (pattern.size() != layers) {
    return InvalidArgument("must be a number or a list for " + std::to_string(layers) +
                           " layers such as ([0]*3+[1]*58), not '" + Printable(text, 60) + "'");
  }
  const auto ones = static_cast<uint32_t>(std::count(pattern.begin(), pattern.end(), true));
  if (ones == 0) return InvalidArgument("leaves no layer with experts");
  const auto first =
      static_cast<uint32_t>(std::find(pattern.begin(), pattern.end(), true) - pattern.begin());
  spec::Model model;
  model.layers = layers;
  const uint32_t apart = ones == 1 ? 1 : (layers - first + ones - 1) / ones;
  // The model has two numbers for the pattern. A block of dense layers before all others is tried
  // first, then layers with experts at equal distances; each candidate is compared layer by layer.
  for (const uint32_t every : {1u, apart}) {
    if (first + 1 < every) continue;
    experts.every = every;
    experts.dense_first_layers = first + 1 - every;
    model.experts = experts;
    bool same = true;
    for (uint32_t i = 0; i < layers; ++i) same = same && model.has_experts(i) == pattern[i];
    if (same) return {};
  }
  // As many layers with experts, at places that the two numbers can express: the stages' sums
  // differ by a layer at most.
  experts.every = std::max(1u, layers / ones);
  experts.dense_first_layers = layers - ones * experts.every;
  model.experts = experts;
  uint32_t count = 0;
  for (uint32_t i = 0; i < layers; ++i) count += model.has_experts(i) ? 1 : 0;
  if (count == ones && apart > 1) return {};
  return InvalidArgument("has experts in a pattern that the planner cannot say ('" +
                         Printable(text, 60) + "'): give the MODEL as a file instead");
}

}  // namespace longhaul::planner::configs::internal
