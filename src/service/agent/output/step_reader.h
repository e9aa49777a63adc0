// Finds steps in a worker's output: takes bytes as they arrive and returns steps.
//
// A line ends with a line feed or a carriage return, because progress bars redraw one line. Colours
// and other escape sequences are removed first. Only the first 4 KiB of a line count. Lines come
// from outside: any bytes are allowed, and time and memory are linear in them and bounded.
//
// Only a step above all earlier ones is reported. Once a line shows a total, lines with another
// total are ignored: they belong to another progress bar (an evaluation's).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "spec/job/step_pattern.h"

namespace longhaul::service {

struct OutputStep {
  uint64_t step = 0;
  uint64_t total = 0;  // of the whole run; 0: unknown
  std::optional<double> loss;
  Instant at{};  // when the last byte of its line arrived

  friend bool operator==(const OutputStep&, const OutputStep&) = default;
};

class StepReader {
 public:
  static constexpr size_t kLongestLine = 4 << 10;
  static constexpr size_t kMostAtOnce = 64;  // of one Take: only the newest

  explicit StepReader(spec::StepPattern pattern) : pattern_(std::move(pattern)) {}

  // Takes the next bytes of the worker's output, which arrived at `at`.
  std::vector<OutputStep> Take(std::string_view bytes, Instant at);
  // Ends the output: an unfinished line counts as it is.
  std::vector<OutputStep> Finish();

 private:
  void EndLine(std::vector<OutputStep>& steps);

  spec::StepPattern pattern_;
  std::string line_;   // unfinished
  Instant line_at_{};  // when its last byte came
  uint64_t bar_ = 0;   // the total of the steps; 0: unknown
  std::optional<uint64_t> newest_;
  std::optional<double> loss_;  // of a line without a step
};

// Returns `text` without escape sequences (ECMA-48): colours, cursor moves, titles.
std::string WithoutEscapes(std::string_view text);

}  // namespace longhaul::service
