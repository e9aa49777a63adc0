// The resources of a container, divided into the accelerators of a LonghaulJob and the rest.
#pragma once

#include <cstdint>
#include <string>

#include "engines/kubernetes/import/import_report.h"

namespace longhaul::engines::kubernetes {

struct ContainerResources {
  std::string device_resource;  // empty: the container has no accelerators
  int64_t devices = 0;
  int64_t cpus = 0;  // the limit, else the request, rounded up; 0: none
  JobJson rest;      // without the accelerators
};

// `resources`: an object or null. A number of accelerators that a LonghaulJob cannot have is an
// error of the translation.
ContainerResources TranslateContainerResources(const JobJson& resources, const std::string& path,
                                               Translation& translation);

}  // namespace longhaul::engines::kubernetes
