#include "runtime/scheduling/configuration/configuration.h"

#include <string>

#include "base/text.h"
#include "spec/cluster/cluster_file.h"

namespace longhaul::runtime::scheduling {

Result<Configuration> ReadConfiguration(const proto::SchedulingConfiguration& configuration) {
  Configuration parsed;
  ASSIGN_OR_RETURN(parsed.file,
                   spec::ParseControllerFile(configuration.text(), "the controller's file"));
  if (parsed.file.cluster_file.empty()) return parsed;
  const std::string source = Printable(parsed.file.cluster_file, 200);
  ASSIGN_OR_RETURN(parsed.cluster, spec::ParseClusterFile(configuration.cluster_text(), source));
  if (!parsed.cluster->counted.empty()) {
    return InvalidArgument(source + ": counted resources are not for a controller's cluster file");
  }
  return parsed;
}

scheduler::Policy PolicyOf(const spec::ControllerSpec& file, bool growing) {
  scheduler::Policy policy;
  policy.preempt = file.preemption;
  policy.backfill = file.backfill ? scheduler::Backfill::kReservations : scheduler::Backfill::kNone;
  policy.reservations = file.reservations;
  policy.evictions_a_day = file.evictions_a_day;
  policy.aging_period = file.aging_period;
  policy.longest_wait = file.longest_wait;
  policy.fair_share = file.fair_share_history ? scheduler::share::FairShare::kHistory
                                              : scheduler::share::FairShare::kPresent;
  policy.usage_half_life = file.usage_half_life;
  policy.reservation_idle_milli = int64_t{file.reservation_idle_percent} * 10;
  policy.elastic_period = file.elastic_period;
  policy.repair_patience = file.repair_patience;
  policy.growing_cluster = growing;
  // Without declared leaves nothing is known of switches that nodes might have in common.
  if (growing) policy.leaf_faults = UINT32_MAX;
  return policy;
}

}  // namespace longhaul::runtime::scheduling
