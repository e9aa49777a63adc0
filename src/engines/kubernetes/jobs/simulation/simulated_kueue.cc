#include "engines/kubernetes/jobs/simulation/simulated_kueue.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace longhaul::engines::kubernetes {
namespace {

constexpr const char* kWorkloads = "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads/";

Json StatusIn(const Json& workload) { return workload.value("status", Json::object()); }

// The condition of this type, or null.
Json ConditionOf(const Json& workload, const std::string& type) {
  for (const Json& each : StatusIn(workload).value("conditions", Json::array())) {
    if (each["type"] == type) return each;
  }
  return nullptr;
}

bool IsTrue(const Json& workload, const std::string& type) {
  const Json condition = ConditionOf(workload, type);
  return condition.is_object() && condition["status"] == "True";
}

bool IsActive(const Json& workload) { return workload["spec"].value("active", true); }

// Whether it may be admitted: it is active, and not held back after an eviction.
bool IsQueued(const Json& workload) {
  const Json requeued = ConditionOf(workload, "Requeued");
  return IsActive(workload) && !(requeued.is_object() && requeued["status"] == "False");
}

bool HasAdmission(const Json& workload) {
  const Json status = StatusIn(workload);
  return status.contains("admission") && status["admission"].is_object();
}

bool HoldsQuota(const Json& workload) {
  return HasAdmission(workload) && !IsTrue(workload, "Finished");
}

uint32_t UseOf(const Json& workload) {
  uint32_t pods = 0;
  const Json admission = StatusIn(workload).at("admission");
  for (const Json& set : admission.at("podSetAssignments")) {
    pods += set["count"].get<uint32_t>();
  }
  return pods;
}

// The conditions of the Workload with other values of some.
Json Conditions(const Json& workload, const std::vector<std::pair<std::string, bool>>& changes,
                const std::string& reason, Instant now) {
  Json conditions = StatusIn(workload).value("conditions", Json::array());
  for (const auto& change : changes) {
    const Json condition = {{"type", change.first},
                            {"status", change.second ? "True" : "False"},
                            {"reason", reason},
                            {"message", "by the simulated Kueue"},
                            {"lastTransitionTime", ToString(now).substr(0, 19) + "Z"}};
    const auto before = std::find_if(conditions.begin(), conditions.end(), [&](const Json& each) {
      return each["type"] == change.first;
    });
    if (before == conditions.end()) {
      conditions.push_back(condition);
    } else {
      *before = condition;
    }
  }
  return conditions;
}

}  // namespace

void SimulatedKueue::Write(const Json& workload, const Json& status) {
  plant_.Patch(kWorkloads + workload["metadata"]["name"].get<std::string>() + "/status",
               {{"status", status}});
}

// What a garbage collector does.
void SimulatedKueue::Collect() {
  std::set<std::string> jobs;
  for (const ObjectName& name : api_.Names("longhauljobs")) {
    jobs.insert(api_.Find("longhauljobs", name)->at("metadata")["uid"]);
  }
  for (const ObjectName& name : api_.Names("workloads")) {
    const Json& meta = api_.Find("workloads", name)->at("metadata");
    if (!jobs.contains(meta["ownerReferences"][0]["uid"])) {
      plant_.Do("DELETE", kWorkloads + name.name, Json::object());
    }
  }
}

// What the reconciler of Workloads does: the activation, and the return after an eviction.
void SimulatedKueue::Tend(const Json& workload, Instant now) {
  const std::string name = workload["metadata"]["name"];
  const Json requeued = ConditionOf(workload, "Requeued");
  if (IsActive(workload)) {
    if (IsTrue(workload, "DeactivationTarget")) {
      log_("kueue deactivates " + name);
      plant_.Patch(kWorkloads + name, {{"spec", {{"active", false}}}});
    } else if (requeued.is_object() && requeued["status"] == "False" &&
               (requeued["reason"] == "Deactivated" || requeued["reason"] == "PodsReadyTimeout")) {
      Write(workload,
            {{"conditions", Conditions(workload, {{"Requeued", true}}, "Reactivated", now)}});
    }
    return;
  }
  if (IsTrue(workload, "Evicted")) return;
  const bool by_kueue = IsTrue(workload, "DeactivationTarget");
  Json conditions =
      Conditions(workload, {{"Evicted", true}},
                 by_kueue ? "DeactivatedDueToRequeuingLimitExceeded" : "Deactivated", now);
  const auto target = std::find_if(conditions.begin(), conditions.end(), [](const Json& each) {
    return each["type"] == "DeactivationTarget";
  });
  if (target != conditions.end()) conditions.erase(target);
  Write(workload, {{"conditions", conditions}});
}

Status SimulatedKueue::Tick(Instant now) {
  if (rng_.Below(30) == 0) Collect();
  for (const ObjectName& name : api_.Names("workloads")) {
    const Json workload = *api_.Find("workloads", name);
    if (!IsTrue(workload, "Finished") && rng_.Below(3) == 0) Tend(workload, now);
  }
  uint32_t used = 0;
  std::vector<Json> waiting;
  for (const ObjectName& name : api_.Names("workloads")) {
    const Json& workload = *api_.Find("workloads", name);
    if (HasAdmission(workload) != IsTrue(workload, "QuotaReserved")) {
      return InternalError(name.name + " has an admission without quota, or none with it");
    }
    if (HoldsQuota(workload)) used += UseOf(workload);
    const bool waits = !HasAdmission(workload) && !IsTrue(workload, "Finished") &&
                       IsQueued(workload) && !workload["metadata"].contains("deletionTimestamp");
    if (waits) waiting.push_back(workload);
  }
  if (used > quota_) return InternalError("more quota is used than there is");
  for (const Json& workload : waiting) {
    if (rng_.Below(3) != 0) continue;
    const Json& workers = workload["spec"]["podSets"][1];
    const uint32_t count = workers["count"];
    const uint32_t least = workers.value("minCount", count);
    const uint32_t room = quota_ - used;
    if (room < least + 1) {
      if (StatusIn(workload).contains("conditions")) continue;  // it was told why it waits
      Write(workload,
            {{"conditions", Conditions(workload, {{"QuotaReserved", false}}, "Pending", now)}});
      continue;
    }
    const uint32_t admitted = std::min(count, room - 1);
    used += admitted + 1;
    const Json flavors = {{"pods", "default"}};
    const Json sets =
        Json::array({{{"name", "controller"}, {"count", 1}, {"flavors", flavors}},
                     {{"name", "workers"}, {"count", admitted}, {"flavors", flavors}}});
    log_("kueue admits " + workload["metadata"]["name"].get<std::string>() + " with " +
         std::to_string(admitted));
    Write(workload,
          {{"admission", {{"clusterQueue", "all"}, {"podSetAssignments", sets}}},
           {"conditions",
            Conditions(workload, {{"QuotaReserved", true}, {"Admitted", true}, {"Evicted", false}},
                       "Admitted", now)}});
  }
  return {};
}

void SimulatedKueue::Evict(Instant now) {
  for (const ObjectName& name : api_.Names("workloads")) {
    const Json workload = *api_.Find("workloads", name);
    if (!HoldsQuota(workload) || IsTrue(workload, "Evicted") || rng_.Below(2) == 0) continue;
    log_("kueue evicts " + name.name);
    const std::string reason = rng_.Below(2) == 0 ? "Preempted" : "PodsReadyTimeout";
    Write(workload, {{"conditions", Conditions(workload, {{"Evicted", true}}, reason, now)}});
    return;
  }
}

void SimulatedKueue::Deactivate(Instant now) {
  for (const ObjectName& name : api_.Names("workloads")) {
    const Json workload = *api_.Find("workloads", name);
    if (IsTrue(workload, "Finished") || !IsActive(workload) || rng_.Below(2) == 0) continue;
    if (rng_.Below(3) == 0) {
      log_("user deactivates " + name.name);
      plant_.Patch(kWorkloads + name.name, {{"spec", {{"active", false}}}});
      return;
    }
    log_("kueue is to deactivate " + name.name);
    Write(workload, {{"conditions", Conditions(workload, {{"DeactivationTarget", true}},
                                               "RequeuingLimitExceeded", now)}});
    return;
  }
}

void SimulatedKueue::Activate(bool all) {
  for (const ObjectName& name : api_.Names("workloads")) {
    if (IsActive(*api_.Find("workloads", name)) || (!all && rng_.Below(3) != 0)) continue;
    log_("user activates " + name.name);
    plant_.Patch(kWorkloads + name.name, {{"spec", {{"active", true}}}});
  }
}

uint32_t SimulatedKueue::Admitted(const std::string& job_uid) const {
  for (const ObjectName& name : api_.Names("workloads")) {
    const Json& workload = *api_.Find("workloads", name);
    const bool own = workload["metadata"]["ownerReferences"][0]["uid"] == job_uid;
    if (own && HoldsQuota(workload)) {
      return StatusIn(workload)["admission"]["podSetAssignments"][1]["count"];
    }
  }
  return 0;
}

}  // namespace longhaul::engines::kubernetes
