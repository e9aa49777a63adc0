// Translates PyTorchJob, kubeflow.org/v1, of Kubeflow's training operator.
#pragma once

#include "engines/kubernetes/import/import_report.h"

namespace longhaul::engines::kubernetes {

// The LonghaulJob; null after an error of the translation.
JobJson TranslatePyTorchJob(const JobJson& object, Translation& translation);

}  // namespace longhaul::engines::kubernetes
