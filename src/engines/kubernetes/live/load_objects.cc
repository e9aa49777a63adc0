#include "engines/kubernetes/live/load_objects.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kNodesOnALeaf = 16;
constexpr int kLeavesOnASpine = 8;
constexpr const char* kTopologyPrefix = "network.topology.nvidia.com/";
constexpr const char* kCoschedulingLabel = "scheduling.x-k8s.io/pod-group";

}  // namespace

Result<GangKind> ParseGangKind(std::string_view text) {
  if (text == "none") return GangKind::kNone;
  if (text == "coscheduling") return GangKind::kCoscheduling;
  if (text == "kubernetes") return GangKind::kKubernetes;
  return InvalidArgument("kind of gangs '" + Printable(text) +
                         "' is unknown, expected none, coscheduling or kubernetes");
}

std::string NodeName(int index) { return "n" + std::to_string(index); }

std::string NodeBody(int index) {
  const int leaf = index / kNodesOnALeaf;
  const std::string prefix = kTopologyPrefix;
  const Json labels = {{"kubernetes.io/hostname", NodeName(index)},
                       {prefix + "leaf", "leaf" + std::to_string(leaf)},
                       {prefix + "spine", "spine" + std::to_string(leaf / kLeavesOnASpine)}};
  return Json{{"metadata", {{"name", NodeName(index)}, {"labels", labels}}}}.dump();
}

std::string NodeStatusPatch() {
  const Json resources = {
      {"cpu", "64"}, {"memory", "512Gi"}, {"pods", "110"}, {"nvidia.com/gpu", "8"}};
  const Json ready = {{"type", "Ready"},
                      {"status", "True"},
                      {"reason", "LoadTest"},
                      {"message", "created by kubernetes_load"}};
  const Json status = {
      {"capacity", resources}, {"allocatable", resources}, {"conditions", Json::array({ready})}};
  return Json{{"status", status}}.dump();
}

std::string LoadPodName(const LoadSettings& settings, int index) {
  return settings.prefix + "-" + std::to_string(index);
}

std::optional<int> LoadPodIndex(const LoadSettings& settings, std::string_view name) {
  if (!name.starts_with(settings.prefix + "-")) return std::nullopt;
  const Result<int64_t> index = ParseInt64(name.substr(settings.prefix.size() + 1));
  if (!index.ok() || *index < 0 || *index >= settings.pods) return std::nullopt;
  return static_cast<int>(*index);
}

std::string LoadPodBody(const LoadSettings& settings, int index) {
  Json meta = {{"name", LoadPodName(settings, index)}};
  Json container = {{"name", "main"}, {"image", "none"}};
  const Json gpu = {{"nvidia.com/gpu", "1"}};
  container["resources"] = {{"requests", gpu}, {"limits", gpu}};
  Json spec = {{"schedulerName", settings.scheduler_name},
               {"terminationGracePeriodSeconds", 0},
               {"containers", Json::array({container})}};
  if (settings.gangs != GangKind::kNone) {
    const std::string gang = GangName(settings, index / settings.gang_size);
    if (settings.gangs == GangKind::kCoscheduling) meta["labels"][kCoschedulingLabel] = gang;
    if (settings.gangs == GangKind::kKubernetes) spec["schedulingGroup"]["podGroupName"] = gang;
  }
  return Json{{"metadata", meta}, {"spec", spec}}.dump();
}

Resource GangResource(GangKind kind) {
  CHECK(kind != GangKind::kNone);
  if (kind == GangKind::kCoscheduling) {
    return {"scheduling.x-k8s.io", "v1alpha1", "podgroups", true};
  }
  return {"scheduling.k8s.io", "v1beta1", "podgroups", true};
}

std::string GangName(const LoadSettings& settings, int gang) {
  return settings.prefix + "-gang-" + std::to_string(gang);
}

std::string GangBody(const LoadSettings& settings, int gang) {
  const Resource resource = GangResource(settings.gangs);
  const int members = std::min(settings.gang_size, settings.pods - gang * settings.gang_size);
  Json spec;
  if (settings.gangs == GangKind::kCoscheduling) {
    spec["minMember"] = members;
  } else {
    spec["schedulingPolicy"]["gang"]["minCount"] = members;
  }
  return Json{{"apiVersion", resource.group + "/" + resource.version},
              {"kind", "PodGroup"},
              {"metadata", {{"name", GangName(settings, gang)}}},
              {"spec", spec}}
      .dump();
}

}  // namespace longhaul::engines::kubernetes
