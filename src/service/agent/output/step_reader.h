// Steps in what a worker writes: bytes in, as they come; steps out.
//
// A line ends with a line feed or a carriage return, because progress bars are drawn over and over
// in one line. Colours and other escape sequences are taken out first. Of a line longer than 4 KiB
// only the beginning counts. Lines come from outside: any bytes are allowed, and time and memory
// are linear in them and bounded.
//
// Only a step beyond all before it is told. Once a line says how many steps there are, lines that
// say another number are passed over: they are of another progress bar (an evaluation's).
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
  Instant at{};  // when the last byte of its line came

  friend bool operator==(const OutputStep&, const OutputStep&) = default;
};

class StepReader {
 public:
  static constexpr size_t kLongestLine = 4 << 10;
  static constexpr size_t kMostAtOnce = 64;  // of one Take: the newest

  explicit StepReader(spec::StepPattern pattern) : pattern_(std::move(pattern)) {}

  // What the worker has written next, which came at `at`.
  std::vector<OutputStep> Take(std::string_view bytes, Instant at);
  // No more will come: an unfinished line counts as it is.
  std::vector<OutputStep> Finish();

 private:
  void EndLine(std::vector<OutputStep>& steps);

  spec::StepPattern pattern_;
  std::string line_;   // unfinished
  Instant line_at_{};  // when its last byte came
  uint64_t bar_ = 0;   // what the steps count up to; 0: unknown
  std::optional<uint64_t> newest_;
  std::optional<double> loss_;  // of a line without a step
};

// `text` without escape sequences (ECMA-48): colours, moves of the cursor, titles.
std::string WithoutEscapes(std::string_view text);

}  // namespace longhaul::service
