// The output of a check command: one JSON object a line, a measurement of a device
// (docs/node-check.md).
//
//   {"name": "cuda:0 matrix product", "model": "H100", "value": 612.3, "unit": "TFLOP/s"}
//   {"name": "cuda:3 memory", "failed": "2 uncorrectable ECC errors"}
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "proto/check.pb.h"

namespace longhaul::service {

constexpr size_t kMostDeviceLines = 128;
constexpr size_t kLongestDeviceLine = 2'048;  // bytes
constexpr size_t kLongestDeviceName = 80;
constexpr size_t kLongestDeviceUnit = 20;
constexpr size_t kLongestDeviceFailure = 300;

// Empty lines are skipped. Returns kInvalidArgument with the number of the first wrong line.
Result<std::vector<proto::DeviceMeasurement>> ParseDeviceLines(std::string_view output);

}  // namespace longhaul::service
