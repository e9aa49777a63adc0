// Clusters for the planner, from text: "h100-sxm:16384" or a YAML file (docs/plan.md, "Clusters").
//
// A missing value follows from the GPU: nodes of eight (four on racks of 72, cores on a host), its
// NVLink island, and for each GPU the NIC with which its systems are sold. The same keys are read
// from a file and set one by one for "what if". Texts come from outside: the file has the limits of
// internal/document.h, every figure has bounds, unknown keys are rejected with the nearest key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "spec/cluster/device.h"

namespace longhaul::spec {

// "DEVICE:COUNT", or "DEVICE" for one node.
Result<DeviceCluster> ParseClusterName(std::string_view text);

// A map of the keys of ClusterKeys() and `device`, network's below `network`. Requires `device` and
// `devices`. `source` names the text in messages.
Result<DeviceCluster> ParseDeviceCluster(std::string_view text, std::string_view source);

// "devices", "network.gb_per_s", ...; in the order of the documentation.
std::vector<std::string_view> ClusterKeys();

// Sets one figure from its text. An unknown key is kNotFound with the nearest key, a value out of
// range kInvalidArgument.
Status SetClusterKey(std::string_view key, std::string_view value, DeviceCluster& cluster);

}  // namespace longhaul::spec
