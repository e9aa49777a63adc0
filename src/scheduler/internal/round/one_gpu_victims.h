// The cheapest job to stop for a waiting job that needs one GPU.
//
// For one whole GPU the optimum is the cheapest victim that holds a GPU, so no search is necessary.
// Of victims of equal cost, the one in the queue that holds most beyond its guarantee is chosen.
// A task that also needs other resources takes the cheapest victim if that one serves; otherwise
// the caller has to search (internal/room/make_room.h), as it has to where GPUs are shared, jobs
// can shrink, or the quotas forbid the job even without the cheapest victim.
//
// The victims are sorted by cost once for each queue and priority of waiting jobs.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "scheduler/internal/room/make_room.h"
#include "scheduler/internal/scheduler_state.h"

namespace longhaul::scheduler::internal {

class OneGpuVictims {
 public:
  enum class Outcome : uint8_t {
    kFound,     // stopping `victim` frees a GPU of node `landing`
    kNobody,    // no victim serves
    kToSearch,  // only a search can decide
  };
  struct Choice {
    Outcome outcome = Outcome::kNobody;
    ChosenVictim victim;
    NodeIndex landing = 0;
  };

  // For the rest of one round. `state` outlives this.
  explicit OneGpuVictims(SchedulerState& state) : state_(state) {}

  // Whether the job is one task with one GPU or a part of one.
  static bool Serves(const JobEntry& job);

  // Returns the victim for a waiting job and the node that the job fits on without it. Requires
  // Serves(job). The state is as before afterwards.
  Choice Choose(const JobEntry& job);

 private:
  struct OfQueue {
    std::vector<std::pair<int64_t, JobNumber>> jobs;  // (cost, job), the cheapest first
    size_t next = 0;                                  // those before are not usable any more
  };
  struct Candidates {
    std::map<share::QueueIndex, OfQueue> queues;
    // No job shares a GPU or could shrink: each job that holds a GPU frees it by itself.
    bool plain = true;
  };

  Candidates& CandidatesFor(const JobEntry& job);
  bool IsUsable(const JobEntry& other) const;
  bool MayTake(const JobEntry& job, const spec::SharedAmounts& asked, const JobEntry& other) const;
  bool QuotasAllowWithout(const JobEntry& job, const JobEntry& other);
  NodeIndex LandingWithout(const JobEntry& job, const JobEntry& other);

  SchedulerState& state_;
  std::map<std::pair<share::QueueIndex, int32_t>, Candidates> candidates_;
};

}  // namespace longhaul::scheduler::internal
