// For tests: Kueue with one queue, in virtual time.
//
// It admits the Workloads that wait, the first one first, while the quota suffices, with fewer
// workers where the Workload allows that; it marks one as evicted when told to; and it counts the
// quota of a Workload as used until its admission is removed, it has finished, or it is gone. It
// deactivates one when told to, as the real one does after too many attempts: by a condition, then
// spec.active, then the eviction, which keeps the condition where there was an eviction before.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/random.h"
#include "base/status.h"
#include "base/time.h"
#include "engines/kubernetes/double/api_double.h"
#include "engines/kubernetes/jobs/simulation/simulated_plant.h"

namespace longhaul::engines::kubernetes {

class SimulatedKueue {
 public:
  using Log = std::function<void(const std::string& line)>;

  // Requires that they outlive this.
  SimulatedKueue(ApiDouble& api, SimulatedPlant& plant, Random& rng, Log log)
      : api_(api), plant_(plant), rng_(rng), log_(std::move(log)) {}

  // How many pods may run.
  void SetQuota(uint32_t pods) { quota_ = pods; }
  // Admits. Call it each second. Returns what would be a mistake of the operator.
  Status Tick(Instant now);
  // Evicts one of those that are admitted.
  void Evict(Instant now);
  // Begins to deactivate one of those that have not finished.
  void Deactivate(Instant now);
  // A person sets spec.active of those that are not active to true, of all or of some.
  void Activate(bool all);
  // How many workers of the job with this uid are admitted: 0 without quota.
  uint32_t Admitted(const std::string& job_uid) const;

 private:
  void Collect();
  void Tend(const Json& workload, Instant now);
  void Write(const Json& workload, const Json& status);

  ApiDouble& api_;
  SimulatedPlant& plant_;
  Random& rng_;
  const Log log_;
  uint32_t quota_ = 0;
};

}  // namespace longhaul::engines::kubernetes
