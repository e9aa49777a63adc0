// What a manifest of another operator states about a job, and the LonghaulJob that results.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engines/kubernetes/import/import_report.h"
#include "engines/kubernetes/import/object_fields.h"
#include "engines/kubernetes/import/worker_template.h"

namespace longhaul::engines::kubernetes {

// As resources.nodes, resources.processes_per_node and max_restarts of a job file.
inline constexpr int64_t kMostImportedWorkers = 100'000;
inline constexpr int64_t kMostImportedProcesses = 1'024;
inline constexpr int64_t kMostImportedRestarts = 1'000'000;

// A number with the path that states it.
struct StatedNumber {
  int64_t value = 0;
  std::string path;
};

struct StatedRestarts {
  int64_t value = 0;
  std::string path;
  std::string change;       // how its meaning changes, for the report; empty: it does not
  bool counts_pods = true;  // so that the launcher's --max-restarts does not say the same
};

struct JobDraft {
  JobJson metadata;  // of the object, as it is written
  JobJson labels;    // added to those of the metadata; null or an object of texts
  JobJson annotations;
  bool suspend = false;
  std::string queue;
  StatedNumber desired;  // pods
  std::optional<int64_t> minimum;
  std::optional<int64_t> maximum;
  std::string priority_class;  // of the pods, stated at:
  std::string priority_path;

  std::string processes;          // of each pod, if a launcher starts them: "8", "auto"; empty: 1
  std::string processes_path;     // where it is stated, or would be
  bool processes_stated = false;  // else `processes` is the other operator's default
  bool auto_counts_cpus = false;  // auto means the container's cores where there is no GPU
  std::optional<StatedRestarts> max_restarts;

  PodTemplateSource pod_template;
};

// Takes apiVersion, kind, metadata and status of an object.
void TakeCommonFields(ObjectFields& object, JobDraft& draft);

// The members of elasticPolicy or mlPolicy that state the bounds: absent bounds follow from the
// other one. An error of the translation if minimum > maximum.
void SetBounds(std::optional<int64_t> minimum, std::optional<int64_t> maximum,
               const std::string& path, JobDraft& draft, Translation& translation);

// Sets the restarts in place of others, which are reported.
void SetRestarts(StatedRestarts restarts, JobDraft& draft, Translation& translation);

// The LonghaulJob, which the operator accepts; null after an error of the translation.
JobJson MakeLonghaulJob(const JobDraft& draft, Translation& translation);

}  // namespace longhaul::engines::kubernetes
