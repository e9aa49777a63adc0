// PyTorch's memory snapshots (torch.cuda.memory._dump_snapshot): allocations over time, by origin.
//
// The recorded history of each device is replayed: allocations and frees give the bytes in use over
// time, its peak, and the origin of the bytes at the peak. The origin is the innermost frame
// outside PyTorch's own code (else the innermost), so parts are lines of the user's program. Blocks
// from before the recording are known only by the final state and count as "before the recording".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::profiler {

struct MemoryPart {
  std::string name;
  int64_t bytes = 0;
  uint64_t blocks = 0;
};

struct DeviceMemory {
  int device = 0;
  int64_t reserved_bytes = 0;   // by the segments at the end
  int64_t allocated_bytes = 0;  // at the end
  int64_t before_bytes = 0;     // allocated when the recording began
  int64_t peak_bytes = 0;       // of the recording
  int64_t peak_time_us = 0;     // since its first event
  uint64_t events = 0;
  uint64_t out_of_memory = 0;
  std::vector<MemoryPart> at_peak;  // largest first
  // Bytes in use over time: the largest in each of at most 200 equal spans.
  std::vector<int64_t> over_time;
  int64_t length_us = 0;
};

Result<std::vector<DeviceMemory>> ReadMemorySnapshot(std::string_view pickle);

// A few lines per device: peak, its origins, reserved but unused memory, and a small curve.
std::string MemoryText(const std::vector<DeviceMemory>& devices);

}  // namespace longhaul::profiler
