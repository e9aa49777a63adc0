#include "profiler/rank/step_window.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace longhaul::profiler {
namespace {

// The digits at the end; -1 where there are none, or too many.
int64_t NumberAtEnd(std::string_view name) {
  const size_t before = name.find_last_not_of("0123456789");
  const auto number = ParseInt64(name.substr(before == name.npos ? 0 : before + 1));
  return number.ok() ? *number : -1;
}

}  // namespace

std::vector<int64_t> StepNumbers(const std::vector<Step>& steps) {
  std::vector<int64_t> numbers;
  for (const Step& step : steps) {
    const int64_t number = NumberAtEnd(step.name);
    if (number < 0 || (!numbers.empty() && number <= numbers.back())) {
      numbers.clear();
      break;
    }
    numbers.push_back(number);
  }
  for (auto i = static_cast<int64_t>(numbers.size()); i < static_cast<int64_t>(steps.size()); ++i) {
    numbers.push_back(i);
  }
  return numbers;
}

Result<StepWindow> ParseStepWindow(std::string_view text) {
  const size_t dash = text.find('-');
  const auto first = ParseInt64(text.substr(0, dash));
  const auto last = dash == text.npos ? first : ParseInt64(text.substr(dash + 1));
  if (!first.ok() || !last.ok() || *first < 0 || *last < *first) {
    return InvalidArgument(Printable(text) +
                           ": expected a step's number, or FIRST-LAST such as 20-29");
  }
  return StepWindow{*first, *last};
}

Result<Interval> KeepSteps(const StepWindow& window, std::vector<Step>* host) {
  const std::vector<int64_t> numbers = StepNumbers(*host);
  const auto first = static_cast<size_t>(
      std::lower_bound(numbers.begin(), numbers.end(), window.first) - numbers.begin());
  const auto behind = static_cast<size_t>(
      std::upper_bound(numbers.begin(), numbers.end(), window.last) - numbers.begin());
  if (first >= behind) {
    const std::string wanted =
        std::to_string(window.first) +
        (window.last == window.first ? "" : " to " + std::to_string(window.last));
    if (numbers.empty()) return NotFound("marks no steps: none is step " + wanted);
    return NotFound("holds steps " + std::to_string(numbers.front()) + " to " +
                    std::to_string(numbers.back()) + ", none of " + wanted);
  }
  const Interval time = {(*host)[first].begin_ns,
                         behind < host->size() ? (*host)[behind].begin_ns : INT64_MAX};
  host->erase(host->begin() + static_cast<int64_t>(behind), host->end());
  host->erase(host->begin(), host->begin() + static_cast<int64_t>(first));
  return time;
}

void KeepLaunched(const Interval& time, std::vector<DeviceEvent>* device) {
  std::erase_if(*device, [&time](const DeviceEvent& event) {
    const int64_t at = event.launched ? event.launch_begin_ns : event.begin_ns;
    return at < time.begin || at >= time.end;
  });
}

void KeepTouching(const Interval& time, Intervals* spans) {
  std::erase_if(*spans, [&time](const Interval& span) {
    return span.end <= time.begin || span.begin >= time.end;
  });
}

}  // namespace longhaul::profiler
