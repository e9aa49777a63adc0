// Amounts of resources by name: "cpu", "memory", "nvidia.com/gpu".
#pragma once

#include <functional>
#include <map>
#include <string>

#include "engines/kubernetes/protocol/objects/quantity.h"

namespace longhaul::engines::kubernetes {

using ResourceList = std::map<std::string, Quantity, std::less<>>;

// total += added, resource by resource.
void Add(const ResourceList& added, ResourceList* total);
// total = the larger of both, resource by resource.
void RaiseTo(const ResourceList& least, ResourceList* total);

}  // namespace longhaul::engines::kubernetes
