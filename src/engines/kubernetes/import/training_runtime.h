// What a TrainingRuntime or ClusterTrainingRuntime of Kubeflow Trainer states about its TrainJobs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engines/kubernetes/import/import_report.h"

namespace longhaul::engines::kubernetes {

struct TrainingRuntime {
  std::string job_name = "node";  // of the replicated job that trains
  JobJson pod_template;           // of that job
  std::string path;               // of the pod template
  std::optional<int64_t> nodes;
  std::string processes;  // "auto", "8"; empty: no torch policy
  std::optional<int64_t> minimum_nodes;
  std::optional<int64_t> maximum_nodes;
  std::optional<int64_t> max_restarts;      // of torchrun
  std::optional<int64_t> job_set_restarts;  // of all pods together
};

// Errors and entries of the report name the runtime.
TrainingRuntime ReadTrainingRuntime(const JobJson& object, Translation& translation);

}  // namespace longhaul::engines::kubernetes
