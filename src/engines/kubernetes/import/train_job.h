// Translates TrainJob, trainer.kubeflow.org/v1alpha1, of Kubeflow Trainer.
#pragma once

#include <optional>
#include <string>

#include "engines/kubernetes/import/import_report.h"
#include "engines/kubernetes/import/training_runtime.h"

namespace longhaul::engines::kubernetes {

// The runtime that a TrainJob names: its kind, which is ClusterTrainingRuntime where none is given,
// and its name.
struct RuntimeReference {
  std::string kind;
  std::string name;
};
RuntimeReference RuntimeOf(const JobJson& train_job);

// The LonghaulJob; null after an error of the translation. Without the runtime only what the
// TrainJob itself states is translated, which is reported.
JobJson TranslateTrainJob(const JobJson& object, const std::optional<TrainingRuntime>& runtime,
                          Translation& translation);

}  // namespace longhaul::engines::kubernetes
