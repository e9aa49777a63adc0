#include "engines/kubernetes/jobs/simulation/simulated_kueue.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace longhaul::engines::kubernetes {
namespace {

constexpr const char* kWorkloads = "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads/";

Json StatusIn(const Json& workload) { return workload.value("status", Json::object()); }

bool IsTrue(const Json& workload, const std::string& type) {
  for (const Json& each : StatusIn(workload).value("conditions", Json::array())) {
    if (each["type"] == type) return each["status"] == "True";
  }
  return false;
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

Status SimulatedKueue::Tick(Instant now) {
  if (rng_.Below(30) == 0) Collect();
  uint32_t used = 0;
  std::vector<Json> waiting;
  for (const ObjectName& name : api_.Names("workloads")) {
    const Json& workload = *api_.Find("workloads", name);
    if (HasAdmission(workload) != IsTrue(workload, "QuotaReserved")) {
      return InternalError(name.name + " has an admission without quota, or none with it");
    }
    if (HoldsQuota(workload)) used += UseOf(workload);
    const bool waits = !HasAdmission(workload) && !IsTrue(workload, "Finished") &&
                       !workload["metadata"].contains("deletionTimestamp");
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
