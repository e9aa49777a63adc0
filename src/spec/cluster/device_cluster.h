// Clusters to plan for, from text: "h100-sxm:16384" or a YAML file (docs/plan.md, "Clusters").
//
// What is not said follows the GPU: nodes of eight (four on racks of 72, cores on a host), its
// NVLink island, and for each GPU the NIC that its systems are sold with. The same keys are read
// from a file and set one by one for "what if". Texts come from outside: the file has the limits of
// internal/document.h, every figure has bounds, unknown keys are refused with the nearest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "spec/cluster/device.h"

namespace longhaul::spec {

// "DEVICE:COUNT", or "DEVICE" for one node.
Result<DeviceCluster> ParseClusterName(std::string_view text);

// A map of the keys of ClusterKeys() and `device`, network's below `network`. Needs `device` and
// `devices`. `source` names the text in messages.
Result<DeviceCluster> ParseDeviceCluster(std::string_view text, std::string_view source);

// "devices", "network.gb_per_s", ...; in the order of the documentation.
std::vector<std::string_view> ClusterKeys();

// Sets one figure from its text. Unknown keys are kNotFound with the nearest, values out of range
// kInvalidArgument.
Status SetClusterKey(std::string_view key, std::string_view value, DeviceCluster& cluster);

}  // namespace longhaul::spec
