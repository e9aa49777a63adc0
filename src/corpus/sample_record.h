// The samples of a rank: one record per step, appended before the step's gradients are summed.
//
// An audit reads the files of all ranks and attempts (runs/NAME/samples/rank-R.eE.bin) and checks
// that each sample was used exactly once: of a step that was done in several attempts only the last
// one counts. A file is a sequence of records, all numbers little-endian:
//
//   offset  bytes
//        0      4  "LHSR"
//        4      4  rank
//        8      8  attempt
//       16      8  step
//       24      8  count of samples
//       32  8 * count  sample ids, in the order they were used
//       ...     8  XXH3-64 of all the record's bytes before
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace longhaul::corpus {

struct SampleRecord {
  uint64_t attempt = 0;
  uint64_t step = 0;
  uint32_t rank = 0;
  std::vector<uint64_t> samples;

  friend bool operator==(const SampleRecord&, const SampleRecord&) = default;
};

std::vector<std::byte> EncodeSampleRecord(const SampleRecord& record);

// All complete records of a file. A record that is truncated at the end (the writer was killed) is
// left out; kDataLoss for all other bytes that EncodeSampleRecord does not write.
Result<std::vector<SampleRecord>> ParseSampleRecords(std::span<const std::byte> file);

}  // namespace longhaul::corpus
