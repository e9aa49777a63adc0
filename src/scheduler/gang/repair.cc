#include "scheduler/gang/repair.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace longhaul::scheduler {

namespace {

constexpr int64_t kMillion = 1'000'000;

using Wide = __int128;

class Repairs {
 public:
  Repairs(const SlotTable& free, const SlotTable& if_moved, const RepairProblem& problem,
          EqualTasksSolver& solver)
      : tree_(free.tree()), if_moved_(if_moved), problem_(problem), solver_(solver) {
    surviving_ = 0;
    for (const HostTasks& entry : problem.survivors) surviving_ += entry.tasks;
    before_ = Domains(problem.survivors);
  }

  // Replaces the lost tasks on hosts of `slots` within the tier around the survivors.
  void Replace(RepairWay way, const SlotTable& slots, Tier within) {
    EqualTasksRequest request = Request(problem_.lost_tasks);
    std::vector<uint8_t> survivors(static_cast<size_t>(tree_.leaves()));
    for (const HostTasks& entry : problem_.survivors) {
      survivors[static_cast<size_t>(tree_.LeafOf(entry.host))] = 1;
    }
    request.free_of_charge = survivors;
    const Tier required = problem_.required_tier;
    EqualTasksAnswer answer;
    if (within < tree_.tiers() && !problem_.survivors.empty()) {
      // Only domains that hold survivors: the others' hosts are out of this way's reach.
      SlotTable near(tree_, slots.max_slots());
      for (int32_t host = 0; host < tree_.hosts(); ++host) {
        if (HoldsSurvivor(within, host)) near.Set(host, slots.OnHost(host));
      }
      solver_.Solve(near, Bounded(request, required), answer);
    } else {
      solver_.Solve(slots, Bounded(request, required), answer);
    }
    if (!answer.placed) return;
    RepairCandidate candidate;
    candidate.way = way;
    candidate.tasks_after = surviving_ + problem_.lost_tasks;
    candidate.added = answer.tasks;
    std::vector<HostTasks> all(problem_.survivors.begin(), problem_.survivors.end());
    all.insert(all.end(), answer.tasks.begin(), answer.tasks.end());
    candidate.cost_gpu_ms = Price(all, candidate.tasks_after, problem_.restart_s);
    Add(std::move(candidate));
  }

  // Fewer replicas: what is left of broken ones leaves too, and its GPUs serve nobody.
  void Shrink() {
    const int32_t after = surviving_ - surviving_ % problem_.shrink_step;
    if (after < std::max(problem_.min_tasks, 1) || after % problem_.slice != 0) return;
    RepairCandidate candidate;
    candidate.way = RepairWay::kShrink;
    candidate.tasks_after = after;
    candidate.surplus_tasks = surviving_ - after;
    const int64_t lacking = surviving_ + problem_.lost_tasks - after;
    candidate.cost_gpu_ms = Price(problem_.survivors, after, problem_.restart_s) +
                            lacking * problem_.gpus_a_task * problem_.remaining_s * 1'000;
    Add(std::move(candidate));
  }

  void Move() {
    EqualTasksRequest request = Request(surviving_ + problem_.lost_tasks);
    request.required_tier = problem_.required_tier;
    EqualTasksAnswer answer;
    solver_.Solve(if_moved_, request, answer);
    if (!answer.placed) return;
    RepairCandidate candidate;
    candidate.way = RepairWay::kMoveGang;
    candidate.tasks_after = request.tasks;
    candidate.added = answer.tasks;
    candidate.cost_gpu_ms = Price(answer.tasks, request.tasks, problem_.move_s);
    Add(std::move(candidate));
  }

  void Wait() {
    if (problem_.wait_s < 0) return;
    RepairCandidate candidate;
    candidate.way = RepairWay::kWait;
    candidate.tasks_after = surviving_ + problem_.lost_tasks;
    candidate.cost_gpu_ms =
        Price(problem_.survivors, candidate.tasks_after, problem_.wait_s + problem_.restart_s);
    Add(std::move(candidate));
  }

  // Stable, so that of equal prices the way that was tried first stays ahead, and ways are tried
  // from the smallest change to the largest.
  std::vector<RepairCandidate> Sorted() {
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const RepairCandidate& a, const RepairCandidate& b) {
                       return a.cost_gpu_ms < b.cost_gpu_ms;
                     });
    return std::move(candidates_);
  }

 private:
  EqualTasksRequest Request(int32_t tasks) const {
    EqualTasksRequest request;
    request.tasks = tasks;
    request.slice = problem_.slice;
    request.slice_tier = problem_.slice_tier;
    return request;
  }

  // Where a domain is required, the survivors' one.
  EqualTasksRequest Bounded(EqualTasksRequest request, Tier required) const {
    if (required >= tree_.tiers()) return request;
    if (problem_.survivors.empty()) {
      request.free_of_charge = {};
      request.required_tier = required;
      return request;
    }
    // A gang that must stay on one host is bounded by its leaf here; the caller asks for its move.
    request.within_tier = std::max(required, kLeafTier);
    request.within_domain = tree_.DomainOf(request.within_tier, problem_.survivors.front().host);
    return request;
  }

  bool HoldsSurvivor(Tier tier, int32_t host) const {
    const int32_t domain = tree_.DomainOf(tier, host);
    return std::any_of(
        problem_.survivors.begin(), problem_.survivors.end(),
        [&](const HostTasks& entry) { return tree_.DomainOf(tier, entry.host) == domain; });
  }

  std::array<int64_t, kMaxTiers> Domains(std::span<const HostTasks> tasks) const {
    std::array<int64_t, kMaxTiers> count{};
    for (Tier tier = 0; tier < tree_.tiers(); ++tier) {
      std::vector<int32_t> used;
      for (const HostTasks& entry : tasks) used.push_back(tree_.DomainOf(tier, entry.host));
      std::sort(used.begin(), used.end());
      count[static_cast<size_t>(tier)] = std::unique(used.begin(), used.end()) - used.begin();
    }
    return count;
  }

  // All GPUs stand still for `still_s`; each domain more than the survivors have slows them all.
  // The slowdown is in millionths of the remaining time and the price in GPU milliseconds, hence
  // the divisor of 1,000. The product can exceed 64 bits for large gangs with long remainders. A
  // gang that spans fewer domains than its survivors gets a negative slowdown, which is a gain.
  int64_t Price(std::span<const HostTasks> tasks, int32_t count, int64_t still_s) const {
    const int64_t gpus = int64_t{count} * problem_.gpus_a_task;
    const std::array<int64_t, kMaxTiers> after = Domains(tasks);
    int64_t slowdown = 0;
    for (size_t tier = 0; tier < after.size(); ++tier) {
      slowdown += problem_.slowdown_ppm[tier] * (after[tier] - before_[tier]);
    }
    const Wide slower = Wide{gpus * problem_.remaining_s} * slowdown / (kMillion / 1'000);
    return gpus * still_s * 1'000 + static_cast<int64_t>(slower);
  }

  void Add(RepairCandidate candidate) {
    // A wider way that takes the same hosts is no way of its own.
    for (const RepairCandidate& known : candidates_) {
      if (known.tasks_after == candidate.tasks_after && !candidate.added.empty() &&
          known.added == candidate.added) {
        return;
      }
    }
    candidates_.push_back(std::move(candidate));
  }

  const DomainTree& tree_;
  const SlotTable& if_moved_;
  const RepairProblem& problem_;
  EqualTasksSolver& solver_;
  int32_t surviving_ = 0;
  std::array<int64_t, kMaxTiers> before_{};
  std::vector<RepairCandidate> candidates_;
};

}  // namespace

std::vector<RepairCandidate> FindRepairs(const SlotTable& free, std::span<const uint8_t> spare,
                                         const SlotTable& if_moved, const RepairProblem& problem,
                                         EqualTasksSolver& solver) {
  const DomainTree& tree = free.tree();
  CHECK(problem.lost_tasks >= 1 && problem.slice >= 1 && problem.shrink_step >= 1);
  CHECK(problem.lost_tasks % problem.slice == 0)
      << problem.lost_tasks << " lost tasks in slices of " << problem.slice;
  CHECK(spare.empty() || spare.size() == static_cast<size_t>(tree.hosts()));
  Repairs repairs(free, if_moved, problem, solver);
  if (!spare.empty()) {
    SlotTable spares(tree, free.max_slots());
    for (int32_t host = 0; host < tree.hosts(); ++host) {
      if (spare[static_cast<size_t>(host)] != 0) spares.Set(host, free.OnHost(host));
    }
    repairs.Replace(RepairWay::kSpareInLeaf, spares, kLeafTier);
  }
  repairs.Replace(RepairWay::kHostInLeaf, free, kLeafTier);
  if (tree.tiers() > kBlockTier) repairs.Replace(RepairWay::kHostInBlock, free, kBlockTier);
  repairs.Replace(RepairWay::kHostAnywhere, free, kClusterTier);
  repairs.Shrink();
  repairs.Move();
  repairs.Wait();
  return repairs.Sorted();
}

}  // namespace longhaul::scheduler
