// Puts gangs into the state: chooses hosts and GPUs for a job's groups, all or none.
//
// A placement is made on the state inside the caller's transaction, so that what follows (proof of
// a preemption, repair, a what-if) sees it, and a savepoint takes it back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "scheduler/gang/equal_tasks.h"
#include "scheduler/internal/scheduler_state.h"
#include "scheduler/small_jobs/small_placer.h"

namespace longhaul::scheduler::internal {

// Where a placement must stay, or must not go.
struct Bounds {
  Tier within_tier = kClusterTier;
  int32_t within_domain = 0;
  std::vector<std::pair<int32_t, int32_t>> closed_hosts;  // [first, last)
  bool plan = false;  // for the future: a task alone goes to any host that serves
  // By group, of those that are of one model: on one of these. Empty: on any for which the quotas
  // have room.
  std::vector<uint64_t> models{};
};

// How a gang is placed:
//   a task alone        small_jobs/small_placer.h, all nodes by fragmentation and scarcity
//   spread              gang/spread.h, and as equal tasks within each domain
//   aligned to rails    gang/rails.h
//   groups of unlike    gang/unlike_tasks.h where they are whole GPUs, else group by group
//   equal tasks         gang/equal_tasks.h
// A group of one model is placed on each model in turn, and on that where it crosses the fewest
// domains of the highest tier, then of each tier below, then the fewest hosts.
// Gangs don't cross links that are not trusted: they lie inside such a domain, or outside.
class Placer {
 public:
  explicit Placer(uint64_t seed) : seed_(seed), random_(seed) {}
  // For a copy of the state made together with it.
  Placer(const Placer& other)
      : seed_(other.seed_), random_(other.seed_), small_(other.small_), mix_(other.mix_) {}
  Placer& operator=(const Placer&) = delete;

  // As new: the next state may have other nodes.
  void Restart();

  // Places counts[g] tasks of each group g. Returns what it placed in `state`, uncommitted, or
  // nothing with the state as before; *failed_group is then the group that found no room.
  // Ranks count on from `first_rank`.
  bool Place(SchedulerState& state, const JobEntry& job, std::span<const int32_t> counts,
             const Bounds& bounds, Admit admit, std::vector<HeldTask>& placed,
             int32_t* failed_group = nullptr);

  // Places `ranks.size()` more tasks of a group of a job that has tasks: near those, under the
  // job's rules.
  bool PlaceMore(SchedulerState& state, const JobEntry& job, int32_t group,
                 std::span<const int32_t> ranks, Admit admit, std::vector<HeldTask>& placed);

  // The most tasks of group g that could be placed alone now under the group's own rules, at most
  // its desired count: whole slices.
  int32_t MostTasks(SchedulerState& state, const JobEntry& job, int32_t group, const Bounds& bounds,
                    Admit admit);

 private:
  struct Where {
    const GroupRequest* group = nullptr;
    ShapeId shape{};
    int32_t tasks = 0;
    Tier required = kClusterTier;
    Bounds bounds;
    Admit admit = Admit::kReady;
    std::vector<NodeIndex> survivors{};  // where tasks of the group are already
  };

  // Place, with the models decided.
  bool PlaceAnywhere(SchedulerState& state, const JobEntry& job, std::span<const int32_t> counts,
                     const Bounds& bounds, Admit admit, std::vector<HeldTask>& placed,
                     int32_t* failed_group);
  bool PlaceInside(SchedulerState& state, const JobEntry& job, std::span<const int32_t> counts,
                   const Bounds& bounds, Admit admit, std::vector<HeldTask>& placed,
                   int32_t* failed_group);
  // placer_kinds.cc. Nothing: this way is not for this job.
  std::optional<bool> PlaceAlone(SchedulerState& state, const JobEntry& job,
                                 std::span<const int32_t> counts, const Bounds& bounds, Admit admit,
                                 std::vector<HeldTask>& placed);
  std::optional<bool> PlaceUnlike(SchedulerState& state, const JobEntry& job,
                                  std::span<const int32_t> counts, const Bounds& bounds,
                                  Admit admit, std::vector<HeldTask>& placed);
  bool PutOnRailsOf(SchedulerState& state, const JobEntry& job, int32_t group, const Where& where,
                    std::span<const uint8_t> islands, std::span<const int32_t> ranks,
                    std::vector<HeldTask>& placed);
  bool PutOnRails(SchedulerState& state, const JobEntry& job, int32_t group, const Where& where,
                  std::span<const int32_t> ranks, std::vector<HeldTask>& placed);
  bool PlaceWithin(SchedulerState& state, const JobEntry& job, std::span<const int32_t> counts,
                   const Bounds& bounds, Admit admit, std::vector<HeldTask>& placed,
                   int32_t* failed_group);
  // Group by group.
  bool PutInOrder(SchedulerState& state, const JobEntry& job, std::span<const int32_t> counts,
                  std::span<const int32_t> order, const Bounds& bounds, Admit admit,
                  std::vector<HeldTask>& placed, int32_t* failed_group);
  // Chooses hosts; `near` marks leaves that cost nothing.
  bool ChooseHosts(SchedulerState& state, const Where& where, std::vector<uint8_t>& near,
                   std::vector<HostTasks>& hosts);
  // The same for a spread group: the domain of the required tier in which its tasks are spread most
  // evenly, of these the fullest, and the fewest switches in each domain of the spread.
  bool ChooseSpread(SchedulerState& state, const Where& where, const SlotTable& table,
                    std::span<const uint8_t> near, std::vector<HostTasks>& hosts);
  bool PutGroup(SchedulerState& state, const JobEntry& job, int32_t group, const Where& where,
                std::span<const int32_t> ranks, std::vector<uint8_t>& near,
                std::vector<HeldTask>& placed);
  // The same for a group that is of one model, or whose shape is not.
  bool PutEqual(SchedulerState& state, const JobEntry& job, int32_t group, const Where& where,
                std::span<const int32_t> ranks, std::vector<uint8_t>& near,
                std::vector<HeldTask>& placed);

  uint64_t seed_;
  EqualTasksSolver solver_;
  EqualTasksAnswer answer_;
  Random random_;
  std::optional<SmallPlacer> small_;
  uint64_t mix_ = 0;  // the version that it knows
};

// The NVLink islands, as masks of their GPUs, of every kind of hosts on which tasks of the shape
// could be aligned to rails: a gang lies on hosts of one kind. In the order of the nodes.
std::vector<std::vector<uint8_t>> RailIslands(const SchedulerState& state, ShapeId shape);
// Whether this host has those islands.
bool HasIslands(const SchedulerState& state, NodeIndex node, std::span<const uint8_t> islands);

// The number of domains that the tasks lie in: of the highest tier of the network first, then of
// each tier below, hosts last. Placements compare by it.
std::vector<size_t> DomainsOf(const SchedulerState& state, std::span<const HeldTask> tasks);

// The most tasks of a group, by the slots of its shape, that its bounds, slices and spread allow in
// one domain of the required tier.
int32_t LargestFit(const SlotTable& slots, const GroupRequest& group, Tier required);

// What a job may be placed on: shorter work that may be stopped also tries suspect nodes.
Admit AdmitOf(const SchedulerState& state, const JobEntry& job);

}  // namespace longhaul::scheduler::internal
