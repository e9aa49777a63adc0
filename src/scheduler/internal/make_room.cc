#include "scheduler/internal/make_room.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>

#include "base/check.h"
#include "scheduler/internal/planning.h"
#include "scheduler/internal/victim_units.h"

namespace longhaul::scheduler::internal {

namespace {

// Searching more than this many victims is for nobody: the dearest are left out.
constexpr size_t kMaxCandidates = 4'096;
// What one search may cost: some hundredths of a second on thousands of nodes. Where candidates are
// few, proofs are cheap.
constexpr int64_t kMaxSteps = 4'000'000;
constexpr int64_t kMaxProofs = 512;
constexpr int64_t kMaxProofsOfFew = 20'000;
constexpr size_t kFew = 64;

struct Candidate {
  const JobEntry* job = nullptr;
  int64_t excess = 0;  // of its queue, thousandths of the cluster
  int64_t cost = 0;
  int32_t spare_pieces = 0;  // elastic steps that it may have to give
  bool may_stop = true;
};

bool Elastic(const JobEntry& job) {
  return job.request->groups.size() == 1 &&
         job.request->groups[0].desired > job.request->groups[0].minimum;
}

bool WithinBudget(const SchedulerState& state, const JobEntry& job) {
  const Instant yesterday = state.now - std::chrono::hours(24);
  const auto recent = std::count_if(job.evictions.begin(), job.evictions.end(),
                                    [&](Instant at) { return at > yesterday; });
  return recent < static_cast<std::ptrdiff_t>(state.policy.evictions_a_day);
}

// What is neither young, nor hurt, nor on its way, nor moved recently.
bool Movable(const SchedulerState& state, const JobEntry& job) {
  if (!state.policy.moves || job.request->preemption == Preemption::kNever) return false;
  if (job.bind_by || job.leaving) return false;
  if (!job.lost.empty() || job.started_in_round == state.rounds) return false;
  return std::none_of(job.moves.begin(), job.moves.end(),
                      [&](Instant at) { return at + state.policy.move_pause > state.now; });
}

int32_t SparePieces(const JobEntry& job) {
  if (!Elastic(job)) return 0;
  const GroupRequest& group = job.request->groups[0];
  return (static_cast<int32_t>(job.tasks.size()) - group.minimum) / group.step;
}

// How much of `other` the rules let `job` take: all of it, some pieces, or nothing.
bool LimitByRights(const share::QueueTree& queues, const JobEntry& job, Candidate& candidate) {
  const JobEntry& other = *candidate.job;
  if (other.held_priority > kMaxPriority) return false;  // an operator has put it first
  candidate.may_stop = other.request->preemption != Preemption::kShrink;
  if (other.queue == job.queue) {
    if (other.held_priority >= job.request->priority) return false;
  } else {
    const spec::SharedAmounts asked = MinimumAmounts(*job.request);
    const auto may = [&](const spec::SharedAmounts& amounts) {
      return queues.MayReclaim(job.queue, asked, other.queue, amounts);
    };
    if (!queues.reclaims(job.queue)) return false;
    if (!may(other.held)) candidate.may_stop = false;
    if (!candidate.may_stop) {
      const GroupRequest& group = other.request->groups[0];
      while (candidate.spare_pieces > 0 &&
             !may(AmountsOf(group.shape, int64_t{candidate.spare_pieces} * group.step))) {
        --candidate.spare_pieces;
      }
    }
  }
  return candidate.may_stop || candidate.spare_pieces > 0;
}

// The same for all that the claimant's own rights depend on but time: not what is begun just now.
bool MayTakeFrom(const SchedulerState& state, const JobEntry& job, Candidate& candidate) {
  const JobEntry& other = *candidate.job;
  if (other.request->preemption == Preemption::kNever || !WithinBudget(state, other)) return false;
  candidate.spare_pieces = SparePieces(other);
  return LimitByRights(state.queues, job, candidate);
}

spec::SharedAmounts MostTaken(const Candidate& candidate) {
  const JobEntry& other = *candidate.job;
  if (candidate.may_stop) return other.held;
  const GroupRequest& group = other.request->groups[0];
  return AmountsOf(group.shape, int64_t{candidate.spare_pieces} * group.step);
}

// Who may be stopped for `job`, by who gives back first, then the cheapest.
// Sets *dropped when some may be taken alone, but not with all that come before them.
std::vector<Candidate> CandidatesFor(const SchedulerState& state, const JobEntry& job,
                                     Rights rights, bool every_one, bool* dropped) {
  std::vector<Candidate> all;
  for (const JobNumber number : state.placed) {
    const JobEntry& other = state.at(number);
    if (number == job.number) continue;
    Candidate candidate;
    candidate.job = &other;
    if (rights == Rights::kMove) {
      if (!Movable(state, other)) continue;
      candidate.cost = std::min(LossOfMoving(other), kMaxVictimCost);
      all.push_back(candidate);
      continue;
    }
    if (rights == Rights::kOwn) {
      // What this very round has started stays: no round undoes its own work.
      if (other.started_in_round == state.rounds) continue;
      if (!MayTakeFrom(state, job, candidate)) continue;
    } else {
      candidate.spare_pieces = SparePieces(other);
    }
    candidate.excess = other.queue == job.queue ? 0 : state.queues.ExcessShare(other.queue);
    candidate.cost = std::min(LossOfStopping(state, other), kMaxVictimCost);
    all.push_back(candidate);
  }
  std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    if (a.excess != b.excess) return a.excess > b.excess;
    if (a.cost != b.cost) return a.cost < b.cost;
    return a.job->number > b.job->number;
  });
  if (all.size() > kMaxCandidates) all.resize(kMaxCandidates);
  if (rights != Rights::kOwn || every_one) return all;
  // Any subset of what is kept leaves every queue its guarantee.
  share::QueueTree left = state.queues;
  const size_t before = all.size();
  std::erase_if(all, [&](Candidate& candidate) {
    const JobEntry& other = *candidate.job;
    if (other.queue == job.queue) return false;
    if (!LimitByRights(left, job, candidate)) return true;
    left.Remove(other.queue, MostTaken(candidate));
    return false;
  });
  *dropped = all.size() < before;
  return all;
}

std::vector<int32_t> CountsOf(const JobEntry& job) {
  std::vector<int32_t> counts(job.request->groups.size());
  for (const HeldTask& task : job.tasks) ++counts[static_cast<size_t>(task.group)];
  return counts;
}

// The largest first: the small ones fit into what is left.
void SortMoves(const SchedulerState& state, std::vector<ChosenVictim>& victims) {
  std::stable_sort(victims.begin(), victims.end(),
                   [&](const ChosenVictim& a, const ChosenVictim& b) {
                     const int64_t left = state.at(a.job).held[0];
                     const int64_t right = state.at(b.job).held[0];
                     return left != right ? left > right : a.job < b.job;
                   });
}

// One search: pieces, slots and the proof.
class Search {
 public:
  // `every_one`: also candidates that the rules allow alone but not all together; each set is then
  // held to the rules when it is proven.
  Search(SchedulerState& state, const JobEntry& job, Rights rights, Placer& placer, bool every_one)
      : state_(state),
        job_(job),
        rights_(rights),
        every_one_(every_one),
        placer_(placer),
        admit_(AdmitOf(state, job)),
        candidates_(CandidatesFor(state, job, rights, every_one, &dropped_)) {
    for (const GroupRequest& group : job.request->groups) counts_.push_back(group.minimum);
    const auto quota = state.queues.Check(job.queue, MinimumAmounts(*job.request));
    // That the whole cluster is in use is no quota: whoever makes room gives as much back.
    const bool full =
        quota && quota->queue == share::kRootQueue &&
        quota->kind == share::QuotaBlock::Kind::kLending &&
        state.queues.usage(share::kRootQueue)[quota->resource] + quota->asked > quota->bound;
    quota_blocked_ = rights == Rights::kOwn && quota && !full;
  }

  bool dropped() const { return dropped_; }

  Room Run() {
    Room room;
    if (candidates_.empty()) return room;
    MakePieces();
    CountMost();
    for (const Tier tier : Tiers()) {
      MakeDomains(tier);
      if (domains_.empty()) continue;
      VictimLimits limits;
      limits.max_steps = kMaxSteps;
      limits.max_proofs = candidates_.size() <= kFew ? kMaxProofsOfFew : kMaxProofs;
      limits.may_fail_with_more = rights_ == Rights::kMove;
      MayTake may_take;
      if (every_one_ && rights_ == Rights::kOwn) {
        may_take = [&](std::span<const Victim> victims) { return RightsAllow(victims); };
      }
      const VictimAnswer answer = FindVictims(
          jobs_, pieces_, domains_,
          [&](int32_t domain, std::span<const Victim> victims) { return Lands(domain, victims); },
          limits, may_take);
      room.steps += answer.steps + answer.proofs;
      room.proven = room.proven && answer.proven;
      if (!answer.found) continue;
      room.found = true;
      room.cost_gpu_ms = answer.cost;
      room.bounds = BoundsOf(answer.domain);
      for (const Victim& victim : answer.victims) room.victims.push_back(Chosen(victim));
      if (rights_ == Rights::kMove) SortMoves(state_, room.victims);
      if (rights_ == Rights::kOwn) Upgrade(room);
      return room;
    }
    return room;
  }

  // For gangs of several groups, whose slots no count can tell: all candidates, then those who can
  // be spared. No promise of the least cost.
  Room SpareFromAll() {
    Room room;
    std::vector<ChosenVictim> all = AllStops();
    if (all.empty() || !LandsWith({}, all)) return room;
    room.victims = std::move(all);
    Spare(room, room.victims.size());
    return room;
  }

  // Where neither stops nor moves alone serve: the cheapest moves of others once all candidates are
  // gone, then those candidates who can be spared.
  Room StopsAndMoves() {
    Room room;
    std::vector<ChosenVictim> stops = AllStops();
    if (stops.empty()) return room;
    const Room moves = MovesBeside(stops);
    room.steps = moves.steps;
    if (!moves.found) return room;
    const size_t stopped = stops.size();
    stops.insert(stops.end(), moves.victims.begin(), moves.victims.end());
    if (!LandsWith(moves.bounds, stops)) return room;
    room.bounds = moves.bounds;
    room.victims = std::move(stops);
    room.proven = false;
    Spare(room, stopped);
    return room;
  }

 private:
  // All candidates that may be stopped, the dearest first.
  std::vector<ChosenVictim> AllStops() const {
    std::vector<ChosenVictim> all;
    for (size_t i = candidates_.size(); i-- > 0;) {
      const JobEntry& other = *candidates_[i].job;
      if (!candidates_[i].may_stop) continue;
      ChosenVictim& victim = all.emplace_back();
      victim.job = other.number;
      victim.means =
          other.request->preemption == Preemption::kSuspend ? Means::kSuspend : Means::kEvict;
    }
    std::stable_sort(all.begin(), all.end(), [&](const ChosenVictim& a, const ChosenVictim& b) {
      return LossOfStopping(state_, state_.at(a.job)) > LossOfStopping(state_, state_.at(b.job));
    });
    return all;
  }

  // Of a set that lands, who can be spared of the first `stops`, in halves. Then it is found.
  void Spare(Room& room, size_t stops) {
    for (size_t from = 0; from < stops;) {
      size_t many = stops - from;
      for (; many > 0; many /= 2) {
        ++room.steps;
        std::vector<ChosenVictim> fewer = room.victims;
        const auto first = fewer.begin() + static_cast<std::ptrdiff_t>(from);
        fewer.erase(first, first + static_cast<std::ptrdiff_t>(many));
        if (!LandsWith(room.bounds, fewer)) continue;
        room.victims = std::move(fewer);
        stops -= many;
        break;
      }
      if (many == 0) ++from;  // this one is needed
    }
    room.found = true;
    for (const ChosenVictim& victim : room.victims) {
      const JobEntry& other = state_.at(victim.job);
      room.cost_gpu_ms +=
          victim.means == Means::kMove ? LossOfMoving(other) : LossOfStopping(state_, other);
    }
    if (rights_ == Rights::kOwn) Upgrade(room);
  }

  // The cheapest moves of others that make room once these are gone; nothing where there wouldn't
  // be room enough in all, so that moving can't help.
  Room MovesBeside(const std::vector<ChosenVictim>& stops) {
    const Savepoint before = state_.resources.Save();
    std::set<JobNumber> gone;
    for (const ChosenVictim& victim : stops) {
      const JobEntry& other = state_.at(victim.job);
      gone.insert(victim.job);
      state_.queues.Remove(other.queue, other.held);
      for (const HeldTask& task : other.tasks) state_.resources.Remove(task.slot);
    }
    Room moves;
    const auto group = static_cast<size_t>(LargestGroup(*job_.request));
    const SlotTable& table = state_.tables.Of(state_.resources, job_.shapes[group], admit_);
    // Joined holes are no more than all holes.
    const int64_t gpus = MinimumAmounts(*job_.request)[0] / kWholeGpu;
    if (table.total() >= job_.request->groups[group].minimum ||
        state_.resources.cluster().free_gpus >= gpus) {
      Search search(state_, job_, Rights::kMove, placer_, false);
      std::erase_if(search.candidates_, [&](const Candidate& candidate) {
        return gone.contains(candidate.job->number);
      });
      moves = search.Run();
    }
    for (const ChosenVictim& victim : stops) {
      state_.queues.Add(state_.at(victim.job).queue, state_.at(victim.job).held);
    }
    state_.resources.RollBack(before);
    return moves;
  }

  // Stops that find another place become moves, the largest first, while all still holds.
  void Upgrade(Room& room) {
    std::vector<ChosenVictim> order = room.victims;
    SortMoves(state_, order);
    for (const ChosenVictim& victim : order) {
      const JobEntry& other = state_.at(victim.job);
      const int64_t gain = LossOfStopping(state_, other) - LossOfMoving(other);
      const bool stops = victim.means == Means::kSuspend || victim.means == Means::kEvict;
      if (!stops || !Movable(state_, other) || gain < 0) continue;
      std::vector<ChosenVictim> trial = room.victims;
      for (ChosenVictim& each : trial) {
        if (each.job != victim.job) continue;
        each.means = Means::kMove;
        each.counts = CountsOf(other);
      }
      SortMoves(state_, trial);
      if (!LandsWith(room.bounds, trial)) continue;
      room.cost_gpu_ms -= gain;
      room.victims = std::move(trial);
    }
  }

  // With these gone or elsewhere the gang lands, quotas included.
  bool LandsWith(const Bounds& bounds, const std::vector<ChosenVictim>& victims) {
    std::vector<std::pair<share::QueueIndex, spec::SharedAmounts>> gone;
    for (const ChosenVictim& victim : victims) {
      const JobEntry& other = state_.at(victim.job);
      if (victim.means == Means::kMove) continue;
      gone.emplace_back(other.queue, victim.means == Means::kShrink
                                         ? AmountsOf(other.request->groups[0].shape,
                                                     static_cast<int64_t>(victim.ranks.size()))
                                         : other.held);
      state_.queues.Remove(gone.back().first, gone.back().second);
    }
    const bool quota = rights_ == Rights::kOperator ||
                       !state_.queues.Check(job_.queue, MinimumAmounts(*job_.request)).has_value();
    for (const auto& [queue, amounts] : gone) state_.queues.Add(queue, amounts);
    if (!quota) return false;
    const Savepoint before = state_.resources.Save();
    for (const ChosenVictim& victim : victims) {
      for (const HeldTask& task : state_.at(victim.job).tasks) {
        const bool leaves = victim.means != Means::kShrink ||
                            std::binary_search(victim.ranks.begin(), victim.ranks.end(), task.rank);
        if (leaves) state_.resources.Remove(task.slot);
      }
    }
    std::vector<HeldTask> placed;
    std::vector<std::vector<HeldTask>> moved;
    const bool lands = placer_.Place(state_, job_, counts_, bounds, admit_, placed) &&
                       PlaceMoved(state_, placer_, job_.number, victims, moved);
    state_.resources.RollBack(before);
    return lands;
  }

  void MakePieces() {
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const Candidate& candidate = candidates_[i];
      const JobEntry& other = *candidate.job;
      const Means means = rights_ == Rights::kMove                            ? Means::kMove
                          : other.request->preemption == Preemption::kSuspend ? Means::kSuspend
                                                                              : Means::kEvict;
      jobs_.push_back({candidate.cost, means, candidate.spare_pieces, candidate.may_stop});
      const auto tasks = static_cast<int32_t>(other.tasks.size());
      const GroupRequest& group = other.request->groups[0];
      const int32_t step = Elastic(other) ? group.step : tasks;
      // What of the minimum is no whole step comes first, and is never given up alone.
      const int32_t rest = Elastic(other) ? group.minimum % step : 0;
      for (int32_t t = 0; t < tasks; ++t) {
        if (t == 0 || (t - rest) % step == 0) {
          const bool whole_step = t >= rest && candidate.spare_pieces > 0;
          pieces_.push_back(
              {static_cast<int32_t>(i), whole_step ? candidate.cost * step / tasks : -1});
          piece_ranks_.emplace_back();
        }
        piece_ranks_.back().push_back(other.tasks[static_cast<size_t>(t)].rank);
        tasks_on_[state_.resources.task(other.tasks[static_cast<size_t>(t)].slot).node].push_back(
            {other.tasks[static_cast<size_t>(t)].slot, static_cast<int32_t>(pieces_.size()) - 1});
      }
    }
  }

  // What each host would take without any candidate.
  void CountMost() {
    const Savepoint before = state_.resources.Save();
    for (const Candidate& candidate : candidates_) {
      for (const HeldTask& task : candidate.job->tasks) state_.resources.Remove(task.slot);
    }
    const ShapeId shape = job_.shapes[static_cast<size_t>(LargestGroup(*job_.request))];
    const SlotTable& table = state_.tables.Of(state_.resources, shape, admit_);
    most_on_.clear();
    for (int32_t host = 0; host < state_.tree->hosts(); ++host) {
      most_on_.push_back(table.OnHost(host));
    }
    state_.resources.RollBack(before);
  }

  // Required: that tier alone. Else the lowest that could hold the gang, and each one above.
  std::vector<Tier> Tiers() const {
    Tier required = job_.request->required;
    if (counts_.size() == 1) required = std::min(required, job_.request->groups[0].required);
    if (required != kClusterTier) return {required};
    std::vector<Tier> tiers;
    const int32_t tasks = std::accumulate(counts_.begin(), counts_.end(), 0);
    for (Tier tier = tasks == 1 ? kHostTier : kLeafTier; tier < state_.tree->tiers(); ++tier) {
      tiers.push_back(tier);
    }
    tiers.push_back(kClusterTier);
    return tiers;
  }

  void MakeDomains(Tier tier) {
    domains_.clear();
    tier_ = tier;
    const DomainTree& tree = *state_.tree;
    const int32_t count = tier == kClusterTier ? 1
                          : tier == kHostTier  ? tree.hosts()
                                               : tree.domains(tier);
    const auto largest = static_cast<size_t>(LargestGroup(*job_.request));
    VictimUnits units(state_.resources, job_.request->groups[largest], job_.shapes[largest],
                      counts_[largest], admit_);
    for (int32_t d = 0; d < count; ++d) {
      VictimDomain domain = units.Start(d);
      for (int32_t host = tree.FirstHost(tier, d); host < tree.LastHost(tier, d); ++host) {
        const auto held = tasks_on_.find(static_cast<NodeIndex>(host));
        units.AddHost(static_cast<NodeIndex>(host),
                      held == tasks_on_.end() ? std::span<const PieceTask>() : held->second,
                      most_on_[static_cast<size_t>(host)], domain);
      }
      int64_t most = 0;
      for (const VictimHost& host : domain.hosts) most += host.most;
      // Moves are for who finds no room: where there is some, its rules ask for more than a count.
      domain.need = std::max(domain.need, rights_ == Rights::kMove ? 1 : 0);
      if (most < domain.need) continue;
      units.Finish(domain);
      if (!units.complete() || counts_.size() > 1 || quota_blocked_) AddOthers(tier, domain);
      if (domain.units() > 0 || !domain.others.empty()) domains_.push_back(std::move(domain));
    }
  }

  // Who holds nothing that is counted there, but maybe cpu, or quota, wherever it runs.
  void AddOthers(Tier tier, VictimDomain& domain) const {
    std::vector<int32_t> here;
    const DomainTree& tree = *state_.tree;
    const auto first = static_cast<NodeIndex>(tree.FirstHost(tier, domain.id));
    const auto last = static_cast<NodeIndex>(tree.LastHost(tier, domain.id));
    if (quota_blocked_) {
      here.resize(pieces_.size());
      std::iota(here.begin(), here.end(), 0);
    } else {
      for (auto host = tasks_on_.lower_bound(first); host != tasks_on_.end() && host->first < last;
           ++host) {
        for (const PieceTask& task : host->second) here.push_back(task.piece);
      }
    }
    std::sort(here.begin(), here.end());
    here.erase(std::unique(here.begin(), here.end()), here.end());
    std::vector<int32_t> holders = domain.holders;
    std::sort(holders.begin(), holders.end());
    std::set_difference(here.begin(), here.end(), holders.begin(), holders.end(),
                        std::back_inserter(domain.others));
  }

  Bounds BoundsOf(int32_t domain) const {
    Bounds bounds;
    bounds.within_tier = tier_;
    bounds.within_domain = domains_[static_cast<size_t>(domain)].id;
    return bounds;
  }

  // What these victims give back, by queue.
  std::vector<std::pair<share::QueueIndex, spec::SharedAmounts>> GivenBack(
      std::span<const Victim> victims) const {
    std::vector<std::pair<share::QueueIndex, spec::SharedAmounts>> gone;
    for (const Victim& victim : victims) {
      const JobEntry& other = *candidates_[static_cast<size_t>(victim.job)].job;
      const ChosenVictim chosen = Chosen(victim);
      gone.emplace_back(other.queue, chosen.means == Means::kShrink
                                         ? AmountsOf(other.request->groups[0].shape,
                                                     static_cast<int64_t>(chosen.ranks.size()))
                                         : other.held);
    }
    return gone;
  }

  // With all of them gone, no queue that gave something back has less than its guarantee. The same
  // whatever their order, and never true for more where it is false for some.
  bool RightsAllow(std::span<const Victim> victims) {
    const auto gone = GivenBack(victims);
    const spec::SharedAmounts asked = MinimumAmounts(*job_.request);
    for (const auto& [queue, amounts] : gone) state_.queues.Remove(queue, amounts);
    bool allow = true;
    for (const auto& [queue, amounts] : gone) {
      if (queue == job_.queue) continue;
      state_.queues.Add(queue, amounts);
      allow = allow && state_.queues.MayReclaim(job_.queue, asked, queue, amounts);
      state_.queues.Remove(queue, amounts);
    }
    for (const auto& [queue, amounts] : gone) state_.queues.Add(queue, amounts);
    return allow;
  }

  // Quotas too: what the victims give back counts.
  bool QuotaAllows(std::span<const Victim> victims) {
    const auto gone = GivenBack(victims);
    for (const auto& [queue, amounts] : gone) state_.queues.Remove(queue, amounts);
    const bool allows = !state_.queues.Check(job_.queue, MinimumAmounts(*job_.request)).has_value();
    for (const auto& [queue, amounts] : gone) state_.queues.Add(queue, amounts);
    return allows;
  }

  bool Lands(int32_t domain, std::span<const Victim> victims) {
    if (rights_ == Rights::kMove) {
      std::vector<ChosenVictim> moves;
      for (const Victim& victim : victims) moves.push_back(Chosen(victim));
      SortMoves(state_, moves);
      return LandsWith(BoundsOf(domain), moves);
    }
    if (rights_ == Rights::kOwn && !QuotaAllows(victims)) return false;
    const Savepoint before = state_.resources.Save();
    for (const Victim& victim : victims) {
      const JobEntry& other = *candidates_[static_cast<size_t>(victim.job)].job;
      const ChosenVictim chosen = Chosen(victim);
      for (const HeldTask& task : other.tasks) {
        const bool leaves = chosen.means != Means::kShrink ||
                            std::binary_search(chosen.ranks.begin(), chosen.ranks.end(), task.rank);
        if (leaves) state_.resources.Remove(task.slot);
      }
    }
    std::vector<HeldTask> placed;
    const bool lands = placer_.Place(state_, job_, counts_, BoundsOf(domain), admit_, placed);
    state_.resources.RollBack(before);
    return lands;
  }

  ChosenVictim Chosen(const Victim& victim) const {
    ChosenVictim chosen;
    chosen.job = candidates_[static_cast<size_t>(victim.job)].job->number;
    chosen.means = victim.means;
    for (const int32_t piece : victim.pieces) {
      const auto& ranks = piece_ranks_[static_cast<size_t>(piece)];
      chosen.ranks.insert(chosen.ranks.end(), ranks.begin(), ranks.end());
    }
    std::sort(chosen.ranks.begin(), chosen.ranks.end());
    if (chosen.means == Means::kMove) chosen.counts = CountsOf(state_.at(chosen.job));
    return chosen;
  }

  SchedulerState& state_;
  const JobEntry& job_;
  Rights rights_;
  bool every_one_;
  bool dropped_ = false;
  Placer& placer_;
  Admit admit_;
  std::vector<Candidate> candidates_;
  std::vector<int32_t> counts_;
  std::vector<VictimJob> jobs_;
  std::vector<VictimPiece> pieces_;
  std::vector<std::vector<int32_t>> piece_ranks_;
  std::map<NodeIndex, std::vector<PieceTask>> tasks_on_;
  std::vector<int32_t> most_on_;  // by host
  bool quota_blocked_ = false;
  Tier tier_ = kClusterTier;
  std::vector<VictimDomain> domains_;
};

}  // namespace

int64_t LossOfStopping(const SchedulerState& state, const JobEntry& job) {
  int64_t gpus_milli = 0;
  for (const HeldTask& task : job.tasks) {
    gpus_milli += job.request->groups[static_cast<size_t>(task.group)].shape.gpu_milli();
  }
  const Duration lost = (state.now - job.last_snapshot) + job.request->restart_cost;
  const int64_t lost_ms = std::max<int64_t>(0, lost.count() / 1'000'000);
  // A GPU at least, so that what holds none isn't stopped for nothing.
  const int64_t gpus = std::max<int64_t>(1'000, gpus_milli);
  __extension__ using Int128 = __int128;
  const Int128 loss = static_cast<Int128>(gpus) * lost_ms / 1000;
  const int64_t priority =
      std::max<int64_t>(0, job.request->priority) * state.policy.priority_gpu_seconds * 1000;
  return static_cast<int64_t>(std::min<Int128>(loss + priority, kMaxVictimCost - 1));
}

bool MayClaim(const SchedulerState& state, const JobEntry& job) {
  const auto& priorities = state.placed_priorities[static_cast<size_t>(job.queue)];
  if (!priorities.empty() && priorities.begin()->first < job.request->priority) return true;
  if (!state.queues.reclaims(job.queue)) return false;
  const spec::SharedAmounts asked = MinimumAmounts(*job.request);
  for (share::QueueIndex up = job.queue; up != share::kRootQueue; up = state.queues.parent(up)) {
    if (state.queues.WithinGuarantee(up, asked)) return true;
  }
  return false;
}

bool MayTakeFrom(const SchedulerState& state, const JobEntry& job, const JobEntry& other) {
  Candidate candidate;
  candidate.job = &other;
  return MayTakeFrom(state, job, candidate);
}

bool PlaceMoved(SchedulerState& state, Placer& placer, JobNumber winner,
                const std::vector<ChosenVictim>& victims,
                std::vector<std::vector<HeldTask>>& placed) {
  for (const ChosenVictim& victim : victims) {
    if (victim.means != Means::kMove) continue;
    JobEntry without = state.at(victim.job);
    without.tasks.clear();
    std::vector<HeldTask>& tasks = placed.emplace_back();
    if (!placer.Place(state, without, victim.counts, {}, AdmitOf(state, without), tasks)) {
      return false;
    }
    if (ForbiddenBy(state, without, tasks, winner) != kNoJob) return false;
  }
  return true;
}

int64_t LossOfMoving(const JobEntry& job) {
  const int64_t still_ms = std::max<int64_t>(1, job.request->restart_cost.count() / 1'000'000);
  const int64_t milli = std::max<int64_t>(kWholeGpu, job.held[0]);
  __extension__ using Int128 = __int128;
  return static_cast<int64_t>(
      std::min<Int128>(static_cast<Int128>(milli) * still_ms / 1'000, kMaxVictimCost - 1));
}

Room FindRoom(SchedulerState& state, const JobEntry& job, Rights rights, Placer& placer) {
  Search safe(state, job, rights, placer, false);
  Room room;
  if (safe.dropped()) room = Search(state, job, rights, placer, true).Run();
  if (!safe.dropped() || !room.found || !room.proven) {
    // Any subset of these is right, so that the search is a simple one.
    Room simple = safe.Run();
    simple.steps += room.steps;
    const bool better =
        simple.found && (!room.found || simple.bounds.within_tier < room.bounds.within_tier ||
                         (simple.bounds.within_tier == room.bounds.within_tier &&
                          simple.cost_gpu_ms < room.cost_gpu_ms));
    if (better || !safe.dropped()) {
      room = std::move(simple);
    } else {
      room.steps = simple.steps;
    }
  }
  if (!room.found && !room.proven && rights != Rights::kMove && job.request->groups.size() > 1) {
    const int64_t steps = room.steps;
    room = safe.SpareFromAll();
    room.steps += steps;
  }
  if (rights != Rights::kOwn) return room;
  // Moving makes no room where there isn't enough of it in all.
  const auto group = static_cast<size_t>(LargestGroup(*job.request));
  const SlotTable& table = state.tables.Of(state.resources, job.shapes[group], AdmitOf(state, job));
  Room moves;
  if (table.total() >= job.request->groups[group].minimum) {
    moves = Search(state, job, Rights::kMove, placer, false).Run();
  }
  if (moves.found && (!room.found || moves.cost_gpu_ms < room.cost_gpu_ms)) {
    moves.steps += room.steps;
    return moves;
  }
  room.steps += moves.steps;
  if (room.found || !state.policy.moves) return room;
  Room both = safe.StopsAndMoves();
  both.steps += room.steps;
  if (both.found) return both;
  room.steps = both.steps;
  return room;
}

}  // namespace longhaul::scheduler::internal
