// How the step is found in a line that a training script prints: a regular expression (RE2's
// syntax, matched anywhere in the line) with named groups:
//
//   (?P<step>\d+)    must be there: the number of the step that is done
//   (?P<total>\d+)   the steps of the whole run; with `epoch`, of an epoch
//   (?P<loss>\S+)    the loss of the step
//   (?P<epoch>\d+)   counted from 0: `step` starts anew in each, the step is epoch * total + step
//
// A line in which only `loss` matches gives the loss of the next step that is found: some programs
// print it on a separate line. Widely used programs have presets with a name. RE2 takes time that
// is linear in the length of the line, for any expression and line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace re2 {
class RE2;
}

namespace longhaul::spec {

struct StepPreset {
  const char* name;        // "nanogpt"
  const char* expression;  // in the syntax above
  const char* example;     // of a line
};
std::span<const StepPreset> StepPresets();

// The contents of a line.
struct StepInLine {
  std::optional<uint64_t> step;  // at most 10^12, and at most the total
  uint64_t total = 0;            // of the whole run; 0: unknown
  uint64_t bar = 0;              // as printed: the number that the step counts up to; 0: none
  std::optional<double> loss;    // finite
};

class StepPattern {
 public:
  static constexpr size_t kMaxBytes = 1'000;

  // `text` is a preset's name or an expression. A message describes the error in it.
  static Result<StepPattern> Parse(std::string_view text);

  const std::string& expression() const;  // the preset's expression, where `text` named one
  std::optional<StepInLine> Find(std::string_view line) const;

 private:
  explicit StepPattern(std::shared_ptr<const re2::RE2> matcher);

  std::shared_ptr<const re2::RE2> matcher_;  // shared by copies; never changed
  int groups_ = 0;
  int step_ = 0;  // numbers of groups; 0: there is none
  int total_ = 0;
  int loss_ = 0;
  int epoch_ = 0;
};

}  // namespace longhaul::spec
