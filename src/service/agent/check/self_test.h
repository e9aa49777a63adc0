// What an agent measures of its own machine for a node check, without the network.
//
// - A product of two matrices of small integers, which float computes exactly, compared with the
//   product computed through a vector (Freivalds, 1979); one thread.
// - Copying memory; one thread.
// - Writing a file in `directory` until it is on the disk, and the free space there.
// - The difference of the clocks, which the controller computes (service/controller/check).
//
// Takes about a second on an idle machine. Leaves out accelerators (check_command.h) and all but
// one processor.
#pragma once

#include <string>

#include "base/status.h"
#include "proto/check.pb.h"

namespace longhaul::service {

// The names of the measurements. Values: GFLOP/s, GB/s, MB/s, GiB.
inline constexpr const char* kMatrixProduct = "matrix product";
inline constexpr const char* kMemoryCopy = "memory copy";
inline constexpr const char* kDiskWrite = "disk write";
inline constexpr const char* kDiskFree = "disk free";

// Measures all. What cannot be measured is bad and has the reason as its detail. Blocks.
proto::SelfTestResult RunSelfTest(const std::string& directory);

// Returns whether `product` is a * b, of matrices with `size` rows and columns, row by row. All
// elements must be integers of at most 8, and size at most 4096. A single wrong element is always
// found.
bool IsProduct(const float* a, const float* b, const float* product, size_t size);

}  // namespace longhaul::service
