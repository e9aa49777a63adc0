// Records of TensorBoard's event files. Pure.
//
// A file is a sequence of TFRecords: the length of the data (8 bytes, little-endian), its checksum,
// the data, its checksum. A checksum is a CRC-32C, rotated by 15 bits, plus 0xa282ead8 (4 bytes).
// The data is a message `Event` of TensorFlow, of which these fields are
// used: wall_time 1 (double), step 2 (int64), file_version 3 (string), summary 5, session_log 7;
// of Summary: value 1; of Value: tag 1 (string), simple_value 2 (float); of SessionLog: status 1
// (START is 1).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"

namespace longhaul::frontend {

using Scalars = std::vector<std::pair<std::string_view, double>>;  // values by tag

// The first record of a file.
std::string VersionRecord(Instant at);
// What follows begins at this step: readers forget earlier values from it on.
std::string RestartRecord(Instant at, uint64_t step);
std::string ScalarsRecord(Instant at, uint64_t step, const Scalars& scalars);

}  // namespace longhaul::frontend
