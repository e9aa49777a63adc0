#include "runtime/agent/worker_devices.h"

#include <string_view>
#include <vector>

#include "base/text.h"

namespace longhaul::runtime::agent {

namespace {

constexpr const char* kDevices = "LONGHAUL_DEVICES";
constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

}  // namespace

Status AssignDevices(std::span<const uint32_t> devices,
                     const std::map<std::string, std::string>& named,
                     std::map<std::string, std::string>& environment) {
  if (devices.empty()) return {};
  std::vector<std::string> indices;
  for (const uint32_t device : devices) indices.push_back(std::to_string(device));
  environment[kDevices] = Join(indices, ",");
  // The job's own specification names the variable: its author has chosen the devices.
  if (named.contains(kVisible)) return {};
  const auto offered = environment.find(kVisible);
  if (offered == environment.end()) {
    environment[kVisible] = environment[kDevices];
    return {};
  }
  if (Trim(offered->second).empty()) return {};  // the agent shows no GPU to its workers
  const std::vector<std::string_view> entries = Split(offered->second, ',');
  std::vector<std::string> visible;
  // The agent may itself see only some GPUs, by index or by UUID. Device i of the cluster file is
  // then the i-th entry of its list.
  for (const uint32_t device : devices) {
    if (device >= entries.size()) {
      return InvalidArgument("the worker has device " + std::to_string(device) +
                             " of its node, but CUDA_VISIBLE_DEVICES of the agent lists " +
                             std::to_string(entries.size()) +
                             "; start the agent with the devices that the cluster file declares");
    }
    visible.emplace_back(Trim(entries[device]));
  }
  const std::string list = Join(visible, ",");
  environment[kVisible] = list;
  return {};
}

}  // namespace longhaul::runtime::agent
