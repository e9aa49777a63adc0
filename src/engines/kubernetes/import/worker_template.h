// The pod template of another operator's job as that of a LonghaulJob.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engines/kubernetes/import/command/worker_command.h"
#include "engines/kubernetes/import/import_report.h"

namespace longhaul::engines::kubernetes {

struct PodTemplateSource {
  JobJson pod_template;  // {"metadata": ..., "spec": ...}; null: the manifest has none
  std::string path;
  std::string container_path;  // of that container; empty: as it is in the template
  std::string command_path;    // of its command; empty: as it is in the container
  // What the container of the training may be called; the first that is there.
  std::vector<std::string_view> container_names;
  // Variables of the other operator, and Longhaul's that have the same meaning.
  std::vector<std::pair<std::string, std::string>> renamed;
  std::string missing_image;    // why the container may have no image, for the report
  std::string missing_command;  // the same for its command: an error
};

struct WorkerTemplate {
  JobJson pod_template;
  WorkerCommand command;
  std::string working_directory;  // empty: the image's
  std::string device_resource;    // empty: none
  int64_t devices = 0;            // of each pod
  int64_t cpus = 0;               // the container's limit, rounded up; 0: unknown
};

// Translates the template and the command in it. Fields of the pod and of its containers are known
// by name; what is inside of them is kept as it is, and the API server checks it with the pods.
WorkerTemplate TranslatePodTemplate(const PodTemplateSource& source, Translation& translation);

}  // namespace longhaul::engines::kubernetes
