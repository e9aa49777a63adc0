#include "service/agent/output/step_reader.h"

#include <algorithm>
#include <utility>

namespace longhaul::service {
namespace {

constexpr char kEscape = '\x1b';
constexpr char kBell = '\x07';

// The end of a sequence that begins after the escape character at `at`; the text's end if it is
// unfinished.
size_t EndOfEscape(std::string_view text, size_t at) {
  if (at == text.size()) return at;
  if (text[at] == '[') {  // parameters, then one byte from '@' to '~'
    ++at;
    while (at < text.size() && (text[at] < '@' || text[at] > '~')) ++at;
    return std::min(at + 1, text.size());
  }
  if (text[at] == ']') {  // a title: up to a bell, or escape and backslash
    while (at < text.size() && text[at] != kBell && text[at] != kEscape) ++at;
    if (at < text.size() && text[at] == kEscape) ++at;
    return std::min(at + 1, text.size());
  }
  while (at < text.size() && text[at] >= ' ' && text[at] <= '/') ++at;  // "(B": a character set
  return std::min(at + 1, text.size());
}

}  // namespace

std::string WithoutEscapes(std::string_view text) {
  std::string plain;
  size_t at = 0;
  while (at < text.size()) {
    const size_t escape = std::min(text.find(kEscape, at), text.size());
    plain.append(text, at, escape - at);
    at = escape < text.size() ? EndOfEscape(text, escape + 1) : escape;
  }
  return plain;
}

std::vector<OutputStep> StepReader::Take(std::string_view bytes, Instant at) {
  std::vector<OutputStep> steps;
  while (!bytes.empty()) {
    const size_t end = bytes.find_first_of("\r\n");
    const std::string_view part = bytes.substr(0, end);
    if (!part.empty()) {
      line_.append(part.substr(0, kLongestLine - std::min(line_.size(), kLongestLine)));
      line_at_ = at;
    }
    if (end == std::string_view::npos) break;
    EndLine(steps);
    bytes.remove_prefix(end + 1);
  }
  if (steps.size() > kMostAtOnce) steps.erase(steps.begin(), steps.end() - kMostAtOnce);
  return steps;
}

std::vector<OutputStep> StepReader::Finish() {
  std::vector<OutputStep> steps;
  EndLine(steps);
  return steps;
}

void StepReader::EndLine(std::vector<OutputStep>& steps) {
  const std::string line = std::exchange(line_, {});
  if (line.empty()) return;
  const bool escaped = line.find(kEscape) != std::string::npos;
  const std::optional<spec::StepInLine> found =
      escaped ? pattern_.Find(WithoutEscapes(line)) : pattern_.Find(line);
  if (!found.has_value()) return;
  if (!found->step.has_value()) {
    loss_ = found->loss;
    return;
  }
  if (bar_ != 0 && found->bar != 0 && found->bar != bar_) return;
  if (bar_ == 0) bar_ = found->bar;
  if (newest_.has_value() && *found->step <= *newest_) return;
  newest_ = found->step;
  const std::optional<double> loss = std::exchange(loss_, std::nullopt);
  steps.push_back(
      {*found->step, found->total, found->loss.has_value() ? found->loss : loss, line_at_});
}

}  // namespace longhaul::service
