// Appends the samples of each step, before it is done, to runs/NAME/samples/rank-R.eE.bin, for an
// audit (corpus/sample_record.h has the format).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "io/fd.h"

namespace longhaul::trainer {

class SampleRecorder {
 public:
  static Result<std::unique_ptr<SampleRecorder>> Open(const std::string& run_directory,
                                                      uint64_t attempt, uint32_t rank);

  // Uses one write, so that a killed process leaves whole records and at most one torn at the end.
  Status Append(uint64_t step, std::span<const uint64_t> samples);

 private:
  SampleRecorder(io::Fd fd, std::string path, uint64_t attempt, uint32_t rank);

  io::Fd fd_;
  std::string path_;
  uint64_t attempt_;
  uint32_t rank_;
};

}  // namespace longhaul::trainer
