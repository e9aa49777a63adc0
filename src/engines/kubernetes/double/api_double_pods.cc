// Deletion, binding and eviction in the double.
#include <utility>

#include "base/text.h"
#include "engines/kubernetes/double/api_double.h"

namespace longhaul::engines::kubernetes {
namespace {

// The refusal of a precondition of a deletion.
std::optional<Refusal> CheckUid(const ResourceInfo& info, const Json& object, const Json& options) {
  const Json::json_pointer at("/preconditions/uid");
  if (!options.is_object() || !options.contains(at)) return std::nullopt;
  const std::string wanted = options.at(at);
  const std::string uid = object["metadata"]["uid"];
  if (wanted == uid) return std::nullopt;
  return ConflictRefusal(info.kind, object["metadata"]["name"],
                         "the UID in the precondition (" + wanted +
                             ") does not match the UID in record (" + uid +
                             "). The object might have been deleted and then recreated");
}

int64_t GraceOf(const ResourceInfo& info, const Json& object, const Json& options) {
  if (info.kind != "Pod" || object["spec"].value("nodeName", "").empty()) return 0;
  const std::string phase = object["status"].value("phase", "");
  // No process is left that could use the time.
  if (phase == "Succeeded" || phase == "Failed") return 0;
  const int64_t own = object["spec"].value("terminationGracePeriodSeconds", int64_t{30});
  return options.is_object() ? options.value("gracePeriodSeconds", own) : own;
}

}  // namespace

ApiResponse ApiDouble::Delete(const Route& route, Stored& stored, const Json& options) {
  const ResourceInfo& info = *route.info;
  if (const auto refusal = CheckUid(info, stored.object, options)) return Refuse(*refusal);
  const int64_t grace = GraceOf(info, stored.object, options);
  Json after = stored.object;
  Json& meta = after["metadata"];
  if (!meta.contains("deletionTimestamp")) {
    meta["deletionTimestamp"] = ToString(now_ + std::chrono::seconds(grace)).substr(0, 19) + "Z";
    if (info.has_generation) meta["generation"] = meta.value("generation", 1) + 1;
    // A later deletion may only shorten the grace period.
  } else if (grace >= meta.value("deletionGracePeriodSeconds", int64_t{0})) {
    return {200, after.dump(), std::nullopt};
  }
  meta["deletionGracePeriodSeconds"] = grace;
  const bool stays = grace > 0 || !meta.value("finalizers", Json::array()).empty();
  if (stays) {
    meta["resourceVersion"] = std::to_string(++version_);
    Record(info, stored.object, after);
    stored.object = after;
    return {200, after.dump(), std::nullopt};
  }
  stored.object = after;
  Erase(info, KeyOf(route.namespace_name, route.name));
  if (info.kind == "Pod") return {200, after.dump(), std::nullopt};
  Json success = SuccessJson(200);
  success.erase("code");
  success["details"] = {
      {"name", route.name}, {"kind", info.resource.plural}, {"uid", after["metadata"]["uid"]}};
  return {200, success.dump(), std::nullopt};
}

ApiResponse ApiDouble::Bind(const ApiRequest& request, const Route& route, Stored& stored) {
  const Json binding = Json::parse(request.body, nullptr, false);
  if (!binding.is_object() || !binding.contains("/target/name"_json_pointer)) {
    return Refuse({400, "BadRequest", "not a binding", Json()});
  }
  const std::string& name = route.name;
  const Json& meta = binding["metadata"];
  const std::string uid = stored.object["metadata"]["uid"];
  if (meta.contains("uid") && meta["uid"] != uid) {
    return Refuse(ConflictRefusal(
        "pods", name,
        "StorageError: invalid object, Code: 4, Key: /registry/pods/" + route.namespace_name + "/" +
            name + ", ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in " +
            "precondition: " + meta["uid"].get<std::string>() + ", UID in object meta: " + uid));
  }
  const Json& spec = stored.object["spec"];
  const std::string node = spec.value("nodeName", "");
  std::string why;
  if (stored.object["metadata"].contains("deletionTimestamp")) {
    why = "pod " + name + " is being deleted, cannot be assigned to a host";
  } else if (!node.empty()) {
    why = "pod " + name + " is already assigned to node \"" + node + "\"";
  } else if (!spec.value("schedulingGates", Json::array()).empty()) {
    why = "pod " + name + " has non-empty .spec.schedulingGates";
  }
  if (!why.empty()) return Refuse(ConflictRefusal("pods/binding", name, why));
  Json after = stored.object;
  after["spec"]["nodeName"] = binding["target"]["name"];
  for (const char* const key : {"annotations", "labels"}) {
    if (meta.contains(key)) after["metadata"][key].update(meta[key]);
  }
  SetCondition(after, {{"type", "PodScheduled"},
                       {"status", "True"},
                       {"lastProbeTime", nullptr},
                       {"lastTransitionTime", Now()}});
  Json before = stored.object;
  after["metadata"]["resourceVersion"] = std::to_string(++version_);
  stored.object = after;
  Record(*route.info, std::move(before), std::move(after));
  return {201, SuccessJson(201).dump(), std::nullopt};
}

std::optional<Refusal> ApiDouble::Budget(const Json& pod) {
  // A pod that does not run is not protected.
  if (pod["status"].value("phase", "") != "Running") return std::nullopt;
  for (auto& [key, stored] : objects_["poddisruptionbudgets"]) {
    Json& budget = stored.object;
    const Json labels =
        budget.value("/spec/selector/matchLabels"_json_pointer, Json(Json::object()));
    const Json pod_labels = pod["metadata"].value("labels", Json::object());
    bool selected = budget["metadata"]["namespace"] == pod["metadata"]["namespace"];
    for (const auto& [name, value] : labels.items()) {
      selected = selected && pod_labels.value(name, "") == value;
    }
    if (!selected) continue;
    const Json status = budget.value("status", Json::object());
    const int64_t allowed = status.value("disruptionsAllowed", int64_t{0});
    if (allowed > 0) {
      // The disruption controller would set it again later.
      budget["status"]["disruptionsAllowed"] = allowed - 1;
      return std::nullopt;
    }
    const auto number = [&status](const char* field) {
      return std::to_string(status.value(field, int64_t{0}));
    };
    return Refusal{
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        {{"causes",
          {{{"reason", "DisruptionBudget"},
            {"message", "The disruption budget " + budget["metadata"].value("name", "") +
                            " needs " + number("desiredHealthy") + " healthy pods and has " +
                            number("currentHealthy") + " currently"}}}}}};
  }
  return std::nullopt;
}

ApiResponse ApiDouble::Evict(const ApiRequest& request, const Route& route, Stored& stored) {
  const Json eviction = Json::parse(request.body, nullptr, false);
  if (!eviction.is_object()) return Refuse({400, "BadRequest", "not an eviction", Json()});
  const Json options = eviction.value("deleteOptions", Json::object());
  if (const auto refusal = CheckUid(*route.info, stored.object, options)) return Refuse(*refusal);
  if (const auto refusal = Budget(stored.object)) return Refuse(*refusal);
  Json before = stored.object;
  SetCondition(stored.object, {{"type", "DisruptionTarget"},
                               {"status", "True"},
                               {"reason", "EvictionByEvictionAPI"},
                               {"message", "Eviction API: evicting"},
                               {"lastProbeTime", nullptr},
                               {"lastTransitionTime", Now()}});
  stored.object["metadata"]["resourceVersion"] = std::to_string(++version_);
  Record(*route.info, std::move(before), stored.object);
  const ApiResponse deleted = Delete(route, stored, options);
  if (deleted.status != 200) return deleted;
  return {201, SuccessJson(201).dump(), std::nullopt};
}

}  // namespace longhaul::engines::kubernetes
