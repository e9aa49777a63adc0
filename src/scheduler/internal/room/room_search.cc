#include "scheduler/internal/room/room_search.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>

#include "scheduler/internal/planning.h"

namespace longhaul::scheduler::internal {

namespace {

// Limits of one search: some hundredths of a second on thousands of nodes. Steps and proofs are
// cheap where candidates are few.
constexpr int64_t kMaxSteps = 4'000'000;
constexpr int64_t kMaxStepsOfFew = 16'000'000;
constexpr int64_t kMaxProofs = 512;
constexpr int64_t kMaxProofsOfFew = 20'000;
constexpr size_t kFewCandidates = 64;

// The tasks that the job holds in each group. A job that moves keeps its size, so an elastic job
// above its minimum is placed with all of them.
std::vector<int32_t> CountsOf(const JobEntry& job) {
  std::vector<int32_t> counts(job.request->groups.size());
  for (const HeldTask& task : job.tasks) ++counts[static_cast<size_t>(task.group)];
  return counts;
}

// With quotas by device model each group of a job that moves stays on its model, so that the quotas
// hold.
std::vector<uint64_t> ModelsToMoveTo(const SchedulerState& state, const JobEntry& job) {
  if (!state.counts_models()) return {};
  std::vector<uint64_t> models(job.request->groups.size(), kAnyModel);
  for (const HeldTask& task : job.tasks) {
    const NodeIndex node = state.resources.task(task.slot).node;
    const size_t group = static_cast<size_t>(task.group);
    models[group] = uint64_t{1} << state.topology->kind_of(node).model;
  }
  return models;
}

// The largest first, because small jobs fit into what is left.
void SortMoves(const SchedulerState& state, std::vector<ChosenVictim>& victims) {
  std::stable_sort(victims.begin(), victims.end(),
                   [&](const ChosenVictim& a, const ChosenVictim& b) {
                     const int64_t left = state.at(a.job).held[0];
                     const int64_t right = state.at(b.job).held[0];
                     return left != right ? left > right : a.job < b.job;
                   });
}

// Puts those of `victims` that move elsewhere, in their order, in the state. Returns false if one
// finds no place, or only one that is promised to another job. Requires that none has tasks in the
// state. `winner` is the job that gets their room.
bool PlaceMoved(SchedulerState& state, Placer& placer, JobNumber winner,
                const std::vector<ChosenVictim>& victims,
                std::vector<std::vector<HeldTask>>& placed) {
  std::vector<HeldTask> all;
  Instant end{};
  for (const ChosenVictim& victim : victims) {
    if (victim.means != Means::kMove) continue;
    JobEntry without = state.at(victim.job);
    without.tasks.clear();
    std::vector<HeldTask>& tasks = placed.emplace_back();
    Bounds bounds;
    bounds.models = victim.models;
    if (!placer.Place(state, without, victim.counts, bounds, AdmitOf(state, without), tasks)) {
      return false;
    }
    all.insert(all.end(), tasks.begin(), tasks.end());
    end = std::max(end, EndOfMoved(state, without));
    if (MoveForbiddenBy(state, end, all, winner) != kNoJob) return false;
  }
  return true;
}

}  // namespace

RoomSearch::RoomSearch(SchedulerState& state, const JobEntry& job, Rights rights, Placer& placer,
                       bool also_conflicting)
    : state_(state),
      job_(job),
      rights_(rights),
      also_conflicting_(also_conflicting),
      placer_(placer),
      admit_(AdmitOf(state, job)),
      beside_reservations_(rights == Rights::kOwn && job.block.kind == Block::Kind::kReservation),
      candidates_(FindVictimCandidates(state, job, rights, also_conflicting)) {
  for (const GroupRequest& group : job.request->groups) counts_.push_back(group.minimum);
  // Whether a quota keeps the job out, apart from the size of the cluster: then jobs anywhere can
  // give quota back, not only those on the hosts of a domain.
  const auto quota = state.queues.Check(state.MinimumOf(job));
  // A cluster that is in use as a whole is no quota: the victims give as much back.
  const bool full =
      quota && quota->queue == share::kRootQueue &&
      quota->kind == share::QuotaBlock::Kind::kLending &&
      state.queues.usage(share::kRootQueue)[quota->resource] + quota->asked > quota->bound;
  quota_blocked_ = rights == Rights::kOwn && quota && !full;
}

bool RoomSearch::UserForbids() {
  if (!state_.queues.CheckUser(state_.MinimumOf(job_))) return false;
  for (const VictimCandidate& each : candidates_.jobs) state_.queues.Remove(HeldBy(*each.job));
  const bool forbids = state_.queues.CheckUser(state_.MinimumOf(job_)).has_value();
  for (const VictimCandidate& each : candidates_.jobs) state_.queues.Add(HeldBy(*each.job));
  return forbids;
}

Room RoomSearch::Run() {
  Room room;
  if (candidates_.jobs.empty()) return room;
  MakePieces();
  CountMost();
  // The lowest tier with a result wins, even if a higher one would cost less: stops within one
  // leaf keep the gang close together. All domains of a tier are searched together, so the
  // cheapest of them is found.
  for (const Tier tier : Tiers()) {
    MakeDomains(tier);
    if (domains_.empty()) continue;
    VictimLimits limits;
    const bool few = candidates_.jobs.size() <= kFewCandidates;
    limits.max_steps = few ? kMaxStepsOfFew : kMaxSteps;
    limits.max_proofs = few ? kMaxProofsOfFew : kMaxProofs;
    limits.may_fail_with_more = NeedsAnyVictim();
    MayTake may_take;
    // Without conflicting candidates every subset is allowed, and the search needs no check of
    // the rights.
    if (also_conflicting_ && rights_ == Rights::kOwn) {
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
    room.bounds = LandingBounds(answer.domain, answer.victims);
    for (const Victim& victim : answer.victims) room.victims.push_back(Chosen(victim));
    if (rights_ == Rights::kMove) SortMoves(state_, room.victims);
    if (rights_ == Rights::kOwn) Upgrade(room);
    return room;
  }
  return room;
}

Room RoomSearch::SpareFromAll() {
  Room room;
  std::vector<ChosenVictim> all = AllStops();
  if (all.empty() || !LandsWith({}, all)) return room;
  room.victims = std::move(all);
  Spare(room, room.victims.size());
  return room;
}

Room RoomSearch::StopsAndMoves() {
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

Bounds RoomSearch::LandingBounds(int32_t domain, std::span<const Victim> victims) const {
  Bounds bounds = BoundsOf(domain);
  if (!beside_reservations_) return bounds;
  // The complement of the victims' hosts, as closed ranges in ascending order.
  std::set<int32_t> hosts;
  for (const Victim& victim : victims) {
    for (const HeldTask& task : candidates_.jobs[static_cast<size_t>(victim.job)].job->tasks) {
      hosts.insert(static_cast<int32_t>(state_.resources.task(task.slot).node));
    }
  }
  int32_t next = 0;
  for (const int32_t host : hosts) {
    if (host > next) bounds.closed_hosts.emplace_back(next, host);
    next = host + 1;
  }
  if (next < state_.tree->hosts()) bounds.closed_hosts.emplace_back(next, state_.tree->hosts());
  return bounds;
}

void RoomSearch::AddFree(const JobEntry& victim, std::map<NodeIndex, int32_t>& free) const {
  if (!beside_reservations_ || victim.queue != job_.queue) return;
  for (const HeldTask& task : victim.tasks) {
    const NodeIndex node = state_.resources.task(task.slot).node;
    free[node] = CountGpus(state_.resources.node(node).free_gpus);
  }
}

bool RoomSearch::Respects(const std::vector<HeldTask>& placed,
                          const std::map<NodeIndex, int32_t>& free_before) const {
  if (!beside_reservations_ || ForbiddenBy(state_, job_, placed) == kNoJob) return true;
  return std::all_of(placed.begin(), placed.end(), [&](const HeldTask& task) {
    const NodeIndex node = state_.resources.task(task.slot).node;
    const auto before = free_before.find(node);
    return before != free_before.end() &&
           CountGpus(state_.resources.node(node).free_gpus) >= before->second;
  });
}

std::vector<ChosenVictim> RoomSearch::AllStops() const {
  std::vector<ChosenVictim> all;
  for (size_t i = candidates_.jobs.size(); i-- > 0;) {
    const JobEntry& other = *candidates_.jobs[i].job;
    if (!candidates_.jobs[i].may_stop) continue;
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

void RoomSearch::Spare(Room& room, size_t stops) {
  // Bisection: a block that can be dropped costs one placement instead of one for each of its
  // victims. A single victim that cannot be dropped is kept for good, since less room is free
  // with fewer victims.
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

Room RoomSearch::MovesBeside(const std::vector<ChosenVictim>& stops) {
  // The stops are applied to the state and to the quotas, so that the nested search sees the room
  // that they make; both are undone before the function returns.
  const Savepoint before = state_.resources.Save();
  std::set<JobNumber> gone;
  for (const ChosenVictim& victim : stops) {
    const JobEntry& other = state_.at(victim.job);
    gone.insert(victim.job);
    state_.queues.Remove(HeldBy(other));
    for (const HeldTask& task : other.tasks) state_.resources.Remove(task.slot);
  }
  Room moves;
  const auto group = static_cast<size_t>(LargestGroup(*job_.request));
  const SlotTable& table = state_.tables.Of(state_.resources, job_.shapes[group], admit_);
  // Moves only join free slots.
  const int64_t gpus = state_.MinimumAmounts(job_)[0] / kWholeGpu;
  if (table.total() >= job_.request->groups[group].minimum ||
      state_.resources.cluster().free_gpus >= gpus) {
    RoomSearch search(state_, job_, Rights::kMove, placer_, false);
    std::erase_if(search.candidates_.jobs, [&](const VictimCandidate& candidate) {
      return gone.contains(candidate.job->number);
    });
    moves = search.Run();
  }
  for (const ChosenVictim& victim : stops) {
    state_.queues.Add(HeldBy(state_.at(victim.job)));
  }
  state_.resources.RollBack(before);
  return moves;
}

void RoomSearch::Upgrade(Room& room) {
  // Each job is tried alone on top of the moves accepted so far. A move that fails leaves the job
  // stopped, so the room stays valid at every step.
  std::vector<ChosenVictim> order = room.victims;
  SortMoves(state_, order);
  for (const ChosenVictim& victim : order) {
    const JobEntry& other = state_.at(victim.job);
    const int64_t gain = LossOfStopping(state_, other) - LossOfMoving(other);
    const bool stops = victim.means == Means::kSuspend || victim.means == Means::kEvict;
    if (!stops || !IsMovable(state_, other) || gain < 0) continue;
    std::vector<ChosenVictim> trial = room.victims;
    for (ChosenVictim& each : trial) {
      if (each.job != victim.job) continue;
      each.means = Means::kMove;
      each.counts = CountsOf(other);
      each.models = ModelsToMoveTo(state_, other);
    }
    SortMoves(state_, trial);
    if (!LandsWith(room.bounds, trial)) continue;
    room.cost_gpu_ms -= gain;
    room.victims = std::move(trial);
  }
}

bool RoomSearch::LandsWith(const Bounds& bounds, const std::vector<ChosenVictim>& victims) {
  std::vector<share::Holding> gone;
  for (const ChosenVictim& victim : victims) {
    if (victim.means == Means::kMove) continue;
    gone.push_back(GivenBackBy(state_.at(victim.job), victim));
    state_.queues.Remove(gone.back());
  }
  const bool quota =
      rights_ == Rights::kOperator || !state_.queues.Check(state_.MinimumOf(job_)).has_value();
  for (const share::Holding& each : gone) state_.queues.Add(each);
  if (!quota) return false;
  std::map<NodeIndex, int32_t> free_before;
  // The free GPUs are counted before the victims are removed from the state.
  for (const ChosenVictim& victim : victims) AddFree(state_.at(victim.job), free_before);
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
  // The waiting job lands first and the moved jobs afterwards, so that these get only what it
  // leaves.
  const bool lands = placer_.Place(state_, job_, counts_, bounds, admit_, placed) &&
                     Respects(placed, free_before) &&
                     PlaceMoved(state_, placer_, job_.number, victims, moved);
  state_.resources.RollBack(before);
  return lands;
}

void RoomSearch::MakePieces() {
  for (size_t i = 0; i < candidates_.jobs.size(); ++i) {
    const VictimCandidate& candidate = candidates_.jobs[i];
    const JobEntry& other = *candidate.job;
    const Means means = rights_ == Rights::kMove                            ? Means::kMove
                        : other.request->preemption == Preemption::kSuspend ? Means::kSuspend
                                                                            : Means::kEvict;
    jobs_.push_back({candidate.cost, means, candidate.spare_pieces, candidate.may_stop});
    const auto tasks = static_cast<int32_t>(other.tasks.size());
    const GroupRequest& group = other.request->groups[0];
    const int32_t step = IsElastic(other) ? group.step : tasks;
    // The part of the minimum that is no whole step comes first, and is never given up alone.
    const int32_t rest = IsElastic(other) ? group.minimum % step : 0;
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

void RoomSearch::CountMost() {
  const Savepoint before = state_.resources.Save();
  for (const VictimCandidate& candidate : candidates_.jobs) {
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

std::vector<Tier> RoomSearch::Tiers() const {
  Tier required = job_.request->required;
  if (counts_.size() == 1) required = std::min(required, job_.request->groups[0].required);
  if (required != kClusterTier) return {required};
  std::vector<Tier> tiers;
  const int32_t tasks = std::accumulate(counts_.begin(), counts_.end(), 0);
  Tier lowest = tasks == 1 ? kHostTier : kLeafTier;
  for (const GroupRequest& group : job_.request->groups) {
    if (group.is_spread() && tasks > 1) lowest = std::max(lowest, group.spread_tier + 1);
  }
  for (Tier tier = lowest; tier < state_.tree->tiers(); ++tier) tiers.push_back(tier);
  tiers.push_back(kClusterTier);
  return tiers;
}

void RoomSearch::MakeDomains(Tier tier) {
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
    // A job that moves could help finds no room: where the count says otherwise, its rules
    // require more than a count.
    domain.need = std::max(domain.need, NeedsAnyVictim() ? 1 : 0);
    if (most < domain.need) continue;
    units.Finish(domain);
    if (!units.complete() || counts_.size() > 1 || quota_blocked_) AddOthers(tier, domain);
    if (domain.units() > 0 || !domain.others.empty()) domains_.push_back(std::move(domain));
  }
}

void RoomSearch::AddOthers(Tier tier, VictimDomain& domain) const {
  std::vector<int32_t> here;
  const DomainTree& tree = *state_.tree;
  const auto first = static_cast<NodeIndex>(tree.FirstHost(tier, domain.id));
  const auto last = static_cast<NodeIndex>(tree.LastHost(tier, domain.id));
  // Where a quota blocks the job, a victim anywhere in the cluster can give back what the quota
  // lacks.
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

Bounds RoomSearch::BoundsOf(int32_t domain) const {
  Bounds bounds;
  bounds.within_tier = tier_;
  bounds.within_domain = domains_[static_cast<size_t>(domain)].id;
  return bounds;
}

share::Holding RoomSearch::GivenBackBy(const JobEntry& other, const ChosenVictim& victim) const {
  if (victim.means != Means::kShrink) return HeldBy(other);
  spec::SharedAmounts sum;
  for (const HeldTask& task : other.tasks) {
    if (!std::binary_search(victim.ranks.begin(), victim.ranks.end(), task.rank)) continue;
    sum += state_.AmountsOf(other, task);
  }
  return PartOf(other, sum);
}

std::vector<share::Holding> RoomSearch::GivenBack(std::span<const Victim> victims) const {
  std::vector<share::Holding> gone;
  for (const Victim& victim : victims) {
    const JobEntry& other = *candidates_.jobs[static_cast<size_t>(victim.job)].job;
    gone.push_back(GivenBackBy(other, Chosen(victim)));
  }
  return gone;
}

bool RoomSearch::RightsAllow(std::span<const Victim> victims) {
  const auto gone = GivenBack(victims);
  const spec::SharedAmounts asked = state_.MinimumAmounts(job_);
  for (const share::Holding& each : gone) state_.queues.Remove(each);
  bool allow = true;
  for (const share::Holding& each : gone) {
    if (each.queue == job_.queue) continue;
    state_.queues.Add(each);
    allow = allow && state_.queues.MayReclaim(job_.queue, asked, each.queue, each.amounts);
    state_.queues.Remove(each);
  }
  for (const share::Holding& each : gone) state_.queues.Add(each);
  return allow;
}

bool RoomSearch::QuotaAllows(std::span<const Victim> victims) {
  const auto gone = GivenBack(victims);
  for (const share::Holding& each : gone) state_.queues.Remove(each);
  const bool allows = !state_.queues.Check(state_.MinimumOf(job_)).has_value();
  for (const share::Holding& each : gone) state_.queues.Add(each);
  return allows;
}

bool RoomSearch::Lands(int32_t domain, std::span<const Victim> victims) {
  const Bounds bounds = LandingBounds(domain, victims);
  if (rights_ == Rights::kMove) {
    std::vector<ChosenVictim> moves;
    for (const Victim& victim : victims) moves.push_back(Chosen(victim));
    SortMoves(state_, moves);
    return LandsWith(BoundsOf(domain), moves);
  }
  if (rights_ == Rights::kOwn && !QuotaAllows(victims)) return false;
  std::map<NodeIndex, int32_t> free_before;
  for (const Victim& victim : victims) {
    AddFree(*candidates_.jobs[static_cast<size_t>(victim.job)].job, free_before);
  }
  const Savepoint before = state_.resources.Save();
  for (const Victim& victim : victims) {
    const JobEntry& other = *candidates_.jobs[static_cast<size_t>(victim.job)].job;
    const ChosenVictim chosen = Chosen(victim);
    for (const HeldTask& task : other.tasks) {
      const bool leaves = chosen.means != Means::kShrink ||
                          std::binary_search(chosen.ranks.begin(), chosen.ranks.end(), task.rank);
      if (leaves) state_.resources.Remove(task.slot);
    }
  }
  std::vector<HeldTask> placed;
  const bool lands =
      placer_.Place(state_, job_, counts_, bounds, admit_, placed) && Respects(placed, free_before);
  state_.resources.RollBack(before);
  return lands;
}

ChosenVictim RoomSearch::Chosen(const Victim& victim) const {
  ChosenVictim chosen;
  chosen.job = candidates_.jobs[static_cast<size_t>(victim.job)].job->number;
  chosen.means = victim.means;
  for (const int32_t piece : victim.pieces) {
    const auto& ranks = piece_ranks_[static_cast<size_t>(piece)];
    chosen.ranks.insert(chosen.ranks.end(), ranks.begin(), ranks.end());
  }
  std::sort(chosen.ranks.begin(), chosen.ranks.end());
  if (chosen.means == Means::kMove) {
    chosen.counts = CountsOf(state_.at(chosen.job));
    chosen.models = ModelsToMoveTo(state_, state_.at(chosen.job));
  }
  return chosen;
}

}  // namespace longhaul::scheduler::internal
