// Accelerators and their machines: the figures of datasheets and price lists.
//
// Figures are the maker's (dense, without sparsity), with the source of each in the shipped
// catalogue (device_catalogue.cc). The planner models the rates that a GPU reaches in practice
// (planner/time/device_matrix.h). The CPU host is a device too: each core's rank counts as one GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/units.h"

namespace longhaul::spec {

enum class Precision { kFp32, kFp16, kBf16, kFp8, kMxfp8, kNvfp4 };
enum class NetworkKind { kInfiniband, kRoce, kOmnipath, kEthernet };

struct Device {
  std::string name;  // "h100-sxm"
  Bytes memory;      // as the runtime reports it to a program
  BytesPerSecond memory_bandwidth;
  // Dense peaks; zero where the GPU has no such unit.
  FlopsPerSecond fp32;  // as frameworks use it: tf32 where the GPU has it
  FlopsPerSecond half;  // fp16 and bf16 with fp32 accumulation
  FlopsPerSecond fp8;
  FlopsPerSecond fp4;
  uint32_t compute_units = 0;       // streaming multiprocessors; waves are counted in them
  BytesPerSecond island_bandwidth;  // one way, one GPU into its NVLink (xGMI) island; zero: none
  BytesPerSecond host_bandwidth;    // one way, PCIe or C2C
  double power_watts = 0;
  double dollars_per_hour = 0;  // on-demand list price of a GPU, dated in the catalogue
};

struct Network {
  NetworkKind kind = NetworkKind::kInfiniband;
  BytesPerSecond per_device;      // one way, of the NIC share of one GPU
  uint32_t rails = 8;             // NICs of a node that lead to different leaf switches
  uint32_t nodes_per_leaf = 32;   // nodes whose NICs of one rail share a leaf switch
  uint32_t leaves_per_block = 8;  // leaves under one group of spines
  // Bandwidth below : above the tier; 1: full bisection.
  double leaf_oversubscription = 1;
  double block_oversubscription = 1;
};

// The cluster that a job is planned for; all nodes are alike.
struct DeviceCluster {
  Device device;
  uint32_t devices = 0;
  uint32_t devices_per_node = 8;
  uint32_t island = 8;  // GPUs in one NVLink domain; more than devices_per_node on NVL72 racks
  Network network;
};

// The shipped devices, by name; "a100-sxm" and other aliases are accepted. An unknown name is
// kNotFound with the nearest known names.
Result<Device> FindDevice(std::string_view name);
std::vector<std::string> DeviceNames();  // sorted, without aliases

// Rejects zero counts, negative or absurd figures, a node that does not divide the devices.
Status CheckDeviceCluster(const DeviceCluster& cluster);

}  // namespace longhaul::spec
