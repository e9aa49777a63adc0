// Changes that a TrainJob makes to the pods of its runtime: runtimePatches, and
// podTemplateOverrides of older releases.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engines/kubernetes/import/import_report.h"

namespace longhaul::engines::kubernetes {

// Adds the elements of a list with keys ("name", "mountPath") to another one: an element of the
// same key is replaced. Lists of more than 2,000 elements are an error of the translation, at
// `path`.
void MergeByKey(const JobJson& added, const char* key, const std::string& path, JobJson& list,
                Translation& translation);

// Applies {"metadata": ..., "spec": ...} to a pod template. Labels, annotations, volumes, and of
// containers env and volumeMounts are merged; other fields are replaced. `trainer`: the index of
// the container that trains, and what else it may be called in a patch. A container that the
// template does not have is reported.
void ApplyPodPatch(const JobJson& patch, const std::string& path, size_t trainer,
                   const std::vector<std::string_view>& trainer_names, JobJson& pod_template,
                   Translation& translation);

}  // namespace longhaul::engines::kubernetes
