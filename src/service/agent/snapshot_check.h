// Looks through each sealed snapshot before the core hears of it: one with NaN or infinity is
// marked and told as non-finite, and the newest good one of a rank is pinned until the next is.
//
// So a rank's writer never takes the newest good snapshot's slot, however many bad ones follow, and
// waits where nothing else is free; and what the controller counts as a state to go back to has
// been read once. A report of an end that follows a seal is held back until the seal was told.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/ids.h"
#include "checkpoint/arena.h"
#include "io/event_loop.h"
#include "io/memory/shared_memory.h"
#include "runtime/agent/agent_messages.h"
#include "service/agent/work_queue.h"

namespace longhaul::service {

class SnapshotCheck {
 public:
  // `tell` gets what was said, in order of the calls, on the loop's thread, where all calls belong.
  SnapshotCheck(io::EventLoop& loop, std::function<void(runtime::AgentInput)> tell)
      : tell_(std::move(tell)), queue_(loop) {}

  // `arena` is the rank's; without one the seal is told as it was said. A seal whose snapshot has
  // been overtaken already isn't told: a newer one is on its way.
  void Sealed(runtime::WorkerSealed said, const std::shared_ptr<const io::SharedMemory>& arena);
  // Told at once, or after the worker's seals.
  void Gone(runtime::WorkerGone said);
  void Drop(const JobId& job);

 private:
  using Place = std::pair<JobId, uint32_t>;
  struct Rank {
    std::shared_ptr<const io::SharedMemory> arena;
    std::optional<checkpoint::SnapshotPin> good;  // the newest; before its arena goes
    uint64_t pending = 0;                         // seals that are looked through
  };
  struct Looked {
    runtime::WorkerSealed said;
    bool there = false;
    std::string bad;  // the tensor; empty: none
    std::shared_ptr<const io::SharedMemory> arena;
    std::optional<checkpoint::SnapshotPin> pin;  // before its arena goes
  };
  static Looked Look(runtime::WorkerSealed said, std::shared_ptr<const io::SharedMemory> arena);
  void Tell(Looked& looked);

  const std::function<void(runtime::AgentInput)> tell_;
  std::map<Place, Rank> ranks_;
  WorkQueue queue_;
};

}  // namespace longhaul::service
