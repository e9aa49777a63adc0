// The names of the fields of pods that a template of a LonghaulJob keeps as they are.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engines/kubernetes/import/import_report.h"

namespace longhaul::engines::kubernetes {

// Of a pod's spec: without its lists of containers and volumes, and without what the operator sets.
std::span<const std::string_view> KeptPodFields();
// All fields of a container, with its name.
std::span<const std::string_view> ContainerFields();

// A map of texts, such as labels; a value of another type is an error of the translation.
JobJson TextMap(const JobJson& map, const std::string& path, Translation& translation);

}  // namespace longhaul::engines::kubernetes
