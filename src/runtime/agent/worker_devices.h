// The variables from which a worker learns its devices.
//
//   LONGHAUL_DEVICES       the indices of the node's devices: "0,3"
//   CUDA_VISIBLE_DEVICES   the same devices, in the terms of CUDA
//
// If the agent has CUDA_VISIBLE_DEVICES, device i of the node is entry i of its list. So an agent
// can offer some of a machine's devices, or MIG devices, which only have names. Leaves out limits:
// the workers that have shares of one device must keep to them by themselves.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/status.h"

namespace longhaul::runtime::agent {

// Sets the variables in `environment`, which is the agent's with the job's variables; `named` are
// those that the job sets itself. No devices: changes nothing. Refuses a device for which the
// agent's CUDA_VISIBLE_DEVICES has no entry.
Status AssignDevices(std::span<const uint32_t> devices,
                     const std::map<std::string, std::string>& named,
                     std::map<std::string, std::string>& environment);

}  // namespace longhaul::runtime::agent
