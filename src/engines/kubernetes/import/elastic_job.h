// Translates ElasticJob, elastic.iml.github.io/v1alpha1, of DLRover.
#pragma once

#include "engines/kubernetes/import/import_report.h"

namespace longhaul::engines::kubernetes {

// The LonghaulJob; null after an error of the translation.
JobJson TranslateElasticJob(const JobJson& object, Translation& translation);

}  // namespace longhaul::engines::kubernetes
