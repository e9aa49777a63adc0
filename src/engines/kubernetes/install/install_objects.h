// The objects that `longhaul kube install` makes in a cluster, and `uninstall` removes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/jobs/longhaul_job.h"
#include "engines/kubernetes/protocol/call.h"

namespace longhaul::engines::kubernetes {

enum class InstallPart : uint8_t {
  kDefinition,
  kScheduler,
  kOperator,
  kFlowSchema,
  kNodeHealth,
};
std::string_view PartName(InstallPart part);

struct InstallObject {
  InstallPart part = InstallPart::kDefinition;
  Resource resource;
  ObjectName name;
  std::string label;  // "ClusterRole longhaul-scheduler"
  JobJson object;
};

// The manifest with the name of the image in its place. kInvalidArgument for a name that no image
// can have.
Result<std::string> ManifestOf(InstallPart part, const std::string& image);

// The objects of a manifest, in the order in which they are made. kInvalidArgument for one of an
// unknown kind.
Result<std::vector<InstallObject>> ReadInstallObjects(InstallPart part, const std::string& text);

// What remains when everything else is removed: the jobs, and so their definition and what may hold
// objects of users, the namespace.
bool StaysInstalled(const InstallObject& object);

}  // namespace longhaul::engines::kubernetes
