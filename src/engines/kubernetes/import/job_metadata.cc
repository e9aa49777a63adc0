#include "engines/kubernetes/import/job_metadata.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "engines/kubernetes/import/job_checks.h"
#include "engines/kubernetes/import/object_fields.h"
#include "engines/kubernetes/import/pod_fields.h"
#include "engines/kubernetes/jobs/pod_templates.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr std::string_view kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";
constexpr auto kServerFields = std::to_array<std::string_view>(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink",
     "deletionTimestamp", "deletionGracePeriodSeconds"});

void CheckName(const std::string& name, Translation& translation) {
  if (name.empty()) {
    return translation.Fail("metadata.name",
                            "is missing, expected a name: a LonghaulJob has no "
                            "generateName");
  }
  if (IsDnsLabel(name) && name.size() <= kMostJobName) return;
  translation.Fail("metadata.name", "is " + ShowValue(name) + ", expected at most " +
                                        std::to_string(kMostJobName) +
                                        " of a-z, 0-9 and '-', beginning and ending with a letter "
                                        "or digit, as pods are named after it: rename the job");
}

JobJson Added(JobJson texts, const JobJson& more) {
  if (!more.is_object()) return texts;
  for (const auto& [name, value] : more.items()) {
    if (!texts.contains(name)) texts[name] = value;
  }
  return texts;
}

}  // namespace

JobJson TranslateJobMetadata(const JobJson& metadata, const JobJson& labels,
                             const JobJson& annotations, Translation& translation) {
  ObjectFields fields(metadata, "metadata", translation);
  JobJson kept = JobJson::object();
  const std::string name = fields.TakeText("name");
  if (translation.ok()) CheckName(name, translation);
  kept["name"] = name;
  const std::string space = fields.TakeText("namespace");
  if (!space.empty() && !IsDnsLabel(space)) {
    translation.Fail("metadata.namespace", "is " + ShowValue(space) + ", expected a DNS label");
  }
  if (!space.empty()) kept["namespace"] = space;
  const JobJson all_labels =
      Added(TextMap(fields.TakeObject("labels"), fields.PathOf("labels"), translation), labels);
  if (!all_labels.empty()) kept["labels"] = all_labels;
  JobJson notes =
      TextMap(fields.TakeObject("annotations"), fields.PathOf("annotations"), translation);
  if (notes.erase(std::string(kLastApplied)) > 0) {
    translation.NotNeeded(fields.PathOf("annotations[" + std::string(kLastApplied) + "]"),
                          "kubectl writes it");
  }
  notes = Added(std::move(notes), annotations);
  if (!notes.empty()) kept["annotations"] = notes;
  for (const std::string_view field : kServerFields)
    fields.NotNeeded(field, "the API server sets it");
  fields.Dropped("generateName", "the name is given");
  fields.Dropped("ownerReferences", "the owner knows the other kind only");
  fields.Dropped("finalizers", "who removes them knows the other kind only");
  fields.Finish();
  return kept;
}

}  // namespace longhaul::engines::kubernetes
