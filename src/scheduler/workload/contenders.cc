#include "scheduler/workload/contenders.h"

namespace longhaul::scheduler::workload {

std::vector<Contender> StandardContenders() {
  std::vector<Contender> all;
  const auto add = [&all](const char* name, const char* what) -> Contender& {
    Contender& contender = all.emplace_back();
    contender.name = name;
    contender.what = what;
    contender.policy.preempt = false;
    return contender;
  };
  add("longhaul", "queues by tenant, 8 reservations a queue, fewest switches");
  add("longhaul+reclaim", "the same, and guarantees are taken back by stopping borrowers")
      .policy.preempt = true;
  Contender& fifo = add("first-come", "strictly in order of arrival, fullest hosts first");
  fifo.policy.backfill = Backfill::kNone;
  fifo.policy.placement = PlacementRule::kBestFit;
  fifo.tenants_have_queues = false;
  fifo.policy.shorter_first = Duration(0);
  fifo.policy.longest_wait = Duration(0);
  fifo.policy.reservation_idle_milli = 0;
  Contender& easy = add("EASY", "one queue, one reservation, fullest hosts first");
  easy.policy.reservations = 1;
  easy.policy.placement = PlacementRule::kBestFit;
  easy.tenants_have_queues = false;
  easy.policy.shorter_first = Duration(0);
  easy.policy.longest_wait = Duration(0);
  easy.policy.reservation_idle_milli = 0;
  Contender& fit = add("best fit", "as longhaul, but fullest hosts first wherever they are");
  fit.policy.placement = PlacementRule::kBestFit;
  Contender& tree = add("greedy tree", "one queue, EASY, Slurm's topology/tree");
  tree.policy.reservations = 1;
  tree.policy.placement = PlacementRule::kGreedyTree;
  tree.tenants_have_queues = false;
  tree.policy.shorter_first = Duration(0);
  tree.policy.longest_wait = Duration(0);
  tree.policy.reservation_idle_milli = 0;
  Contender& sampled = add("5 of 50", "no reservations, a tenth of the leaves, random ties");
  sampled.policy.reservations = 0;
  sampled.policy.placement = PlacementRule::kSampled;
  sampled.tenants_have_queues = false;
  sampled.policy.shorter_first = Duration(0);
  sampled.policy.longest_wait = Duration(0);
  sampled.policy.reservation_idle_milli = 0;
  return all;
}

}  // namespace longhaul::scheduler::workload
