// Translates the training jobs of other operators, among other objects, to LonghaulJobs.
//
// docs/kube-import.md has a table with each field. Pure: texts of files in, manifests and a report
// out. What is returned was read with the operator's own code.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/import/import_report.h"
#include "engines/kubernetes/import/manifest/manifest_reader.h"

namespace longhaul::engines::kubernetes {

struct ImportResult {
  std::vector<JobJson> jobs;  // LonghaulJobs, in the order of their originals
  ImportReport report;
};

// kInvalidArgument with one line for each job that cannot be translated (at most ten): then no job
// is returned.
Result<ImportResult> ImportJobs(const std::vector<Manifest>& manifests);

}  // namespace longhaul::engines::kubernetes
