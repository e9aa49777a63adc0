// The YAML documents of a text as JSON values, within the limits of manifest_reader.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/jobs/longhaul_job.h"

namespace longhaul::engines::kubernetes {

// Requires UTF-8 text. An empty document is null. kInvalidArgument with "FILE:LINE: ...".
Result<std::vector<JobJson>> ReadYamlDocuments(std::string_view text, const std::string& file);

}  // namespace longhaul::engines::kubernetes
