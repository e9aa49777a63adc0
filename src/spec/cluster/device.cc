#include "spec/cluster/device.h"

#include <cmath>

#include "spec/internal/mistakes.h"

namespace longhaul::spec {

namespace {

using internal::Mistakes;

std::string Text(uint64_t value) { return Mistakes::Number(value); }

void CheckReal(const char* name, double value, double min, double max, Mistakes& mistakes) {
  // Written as a negation, so that a NaN is refused too.
  if (!(value >= min && value <= max)) {
    mistakes.Add(std::string(name) + ": " + std::to_string(value) + " is out of range");
  }
}

void CheckDevice(const Device& device, Mistakes& mistakes) {
  CheckReal("device memory in bytes", static_cast<double>(device.memory.count()), 1 << 20, 1e16,
            mistakes);
  CheckReal("device memory bandwidth in bytes/s", device.memory_bandwidth.count(), 1e6, 1e17,
            mistakes);
  CheckReal("device fp32 FLOP/s", device.fp32.count(), 1e6, 1e20, mistakes);
  CheckReal("device half-precision FLOP/s", device.half.count(), 1e6, 1e20, mistakes);
  CheckReal("device fp8 FLOP/s", device.fp8.count(), 0, 1e20, mistakes);
  CheckReal("device fp4 FLOP/s", device.fp4.count(), 0, 1e20, mistakes);
  CheckReal("island bandwidth in bytes/s", device.island_bandwidth.count(), 0, 1e16, mistakes);
  CheckReal("host bandwidth in bytes/s", device.host_bandwidth.count(), 1e6, 1e16, mistakes);
  CheckReal("device power in W", device.power_watts, 0, 1e6, mistakes);
  CheckReal("device price in dollars an hour", device.dollars_per_hour, 0, 1e6, mistakes);
  mistakes.Range("device compute units", device.compute_units, 1, 1'000'000);
}

void CheckNetwork(const Network& network, Mistakes& mistakes) {
  CheckReal("network bandwidth a device in bytes/s", network.per_device.count(), 1e3, 1e16,
            mistakes);
  mistakes.Range("network rails", network.rails, 1, 1'024);
  mistakes.Range("network nodes a leaf", network.nodes_per_leaf, 1, 1'000'000);
  mistakes.Range("network leaves a block", network.leaves_per_block, 1, 1'000'000);
  CheckReal("leaf oversubscription", network.leaf_oversubscription, 1, 1e3, mistakes);
  CheckReal("block oversubscription", network.block_oversubscription, 1, 1e3, mistakes);
}

}  // namespace

Status CheckDeviceCluster(const DeviceCluster& cluster) {
  Mistakes mistakes;
  CheckDevice(cluster.device, mistakes);
  CheckNetwork(cluster.network, mistakes);
  mistakes.Range("devices", cluster.devices, 1, 10'000'000);
  mistakes.Range("devices a node", cluster.devices_per_node, 1, 1'024);
  mistakes.Range("devices an island", cluster.island, 1, 65'536);
  if (!mistakes.none()) return std::move(mistakes).Finish();
  const uint32_t node = cluster.devices_per_node;
  if (cluster.devices > node && cluster.devices % node != 0) {
    const uint32_t below = cluster.devices / node * node;
    mistakes.Add(Text(cluster.devices) + " devices don't fill nodes of " + Text(node) + ": take " +
                 Text(below) + " or " + Text(below + node));
  }
  if (node % cluster.island != 0 && cluster.island % node != 0) {
    mistakes.Add("an island of " + Text(cluster.island) + " devices is neither part of a node of " +
                 Text(node) + " nor whole nodes");
  }
  return std::move(mistakes).Finish();
}

}  // namespace longhaul::spec
