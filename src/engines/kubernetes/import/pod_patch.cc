#include "engines/kubernetes/import/pod_patch.h"

#include <algorithm>

#include "engines/kubernetes/import/object_fields.h"
#include "engines/kubernetes/import/pod_fields.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMostElements = 2'000;

JobJson KeyOf(const JobJson& object, const char* key) {
  return object.is_object() ? object.value(key, JobJson()) : JobJson();
}

JobJson& ObjectAt(JobJson& object, const char* name) {
  JobJson& member = object[name];
  if (!member.is_object()) member = JobJson::object();
  return member;
}

JobJson& ListAt(JobJson& object, const char* name) {
  JobJson& member = object[name];
  if (!member.is_array()) member = JobJson::array();
  return member;
}

void PatchContainer(const JobJson& patch, const std::string& path, JobJson& container,
                    Translation& translation) {
  ObjectFields fields(patch, path, translation);
  fields.Take("name");
  const JobJson& env = fields.TakeList("env");
  if (!env.empty())
    MergeByKey(env, "name", fields.PathOf("env"), ListAt(container, "env"), translation);
  const JobJson& mounts = fields.TakeList("volumeMounts");
  if (!mounts.empty()) {
    MergeByKey(mounts, "mountPath", fields.PathOf("volumeMounts"),
               ListAt(container, "volumeMounts"), translation);
  }
  const JobJson& context = fields.TakeObject("securityContext");
  if (!context.is_null()) container["securityContext"] = context;
  fields.Finish();
}

}  // namespace

void MergeByKey(const JobJson& added, const char* key, const std::string& path, JobJson& list,
                Translation& translation) {
  if (added.size() + list.size() > kMostElements) {
    return translation.Fail(path,
                            "has " + std::to_string(added.size()) +
                                " elements, expected at most 2,000 with those of the runtime");
  }
  for (const JobJson& each : added) {
    const JobJson name = KeyOf(each, key);
    const auto found = std::ranges::find_if(
        list, [&](const JobJson& other) { return !name.is_null() && KeyOf(other, key) == name; });
    if (found == list.end()) {
      list.push_back(each);
    } else {
      *found = each;
    }
  }
}

void ApplyPodPatch(const JobJson& patch, const std::string& path, size_t trainer,
                   const std::vector<std::string_view>& trainer_names, JobJson& pod_template,
                   Translation& translation) {
  ObjectFields fields(patch, path, translation);
  ObjectFields metadata(fields.TakeObject("metadata"), fields.PathOf("metadata"), translation);
  for (const char* name : {"labels", "annotations"}) {
    const JobJson texts = TextMap(metadata.TakeObject(name), metadata.PathOf(name), translation);
    for (const auto& [key, value] : texts.items()) {
      ObjectAt(ObjectAt(pod_template, "metadata"), name)[key] = value;
    }
  }
  metadata.Finish();
  ObjectFields spec(fields.TakeObject("spec"), fields.PathOf("spec"), translation);
  fields.Finish();
  JobJson& pod = ObjectAt(pod_template, "spec");
  const JobJson& volumes = spec.TakeList("volumes");
  if (!volumes.empty()) {
    MergeByKey(volumes, "name", spec.PathOf("volumes"), ListAt(pod, "volumes"), translation);
  }
  for (const char* list : {"containers", "initContainers"}) {
    const JobJson& patches = spec.TakeList(list);
    for (size_t i = 0; i < patches.size(); ++i) {
      const std::string place = PathItem(spec.PathOf(list), i);
      const JobJson name = KeyOf(patches[i], "name");
      JobJson& containers = ListAt(pod, list);
      size_t index = 0;
      while (index < containers.size() && KeyOf(containers[index], "name") != name) ++index;
      const bool is_trainer =
          std::string_view(list) == "containers" && name.is_string() &&
          std::ranges::find(trainer_names, name.get_ref<const std::string&>()) !=
              trainer_names.end();
      if (index == containers.size() && is_trainer) index = trainer;
      if (index < containers.size()) {
        PatchContainer(patches[i], place, containers[index], translation);
      } else {
        translation.Dropped(place, "the runtime's container " + ShowValue(name) + " is not known");
      }
    }
  }
  spec.Dropped("schedulingGates", "the operator has a gate of its own");
  for (const std::string_view name : KeptPodFields()) {
    const JobJson& value = spec.Take(name);
    if (!value.is_null()) pod[std::string(name)] = value;
  }
  spec.Finish();
}

}  // namespace longhaul::engines::kubernetes
