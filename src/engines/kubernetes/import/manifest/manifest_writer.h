// Writes objects of Kubernetes as a manifest.
#pragma once

#include <string>
#include <vector>

#include "engines/kubernetes/jobs/longhaul_job.h"

namespace longhaul::engines::kubernetes {

// One document for each object, in block style. ReadManifests reads equal objects back.
std::string ToYamlDocuments(const std::vector<JobJson>& objects);

}  // namespace longhaul::engines::kubernetes
