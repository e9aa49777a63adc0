// Scans each sealed snapshot before its seal is reported. A snapshot with NaN or infinity is
// reported as non-finite; the newest finite one of an arena stays pinned until the next one.
//
// So an arena's writer never reuses the slot of the newest finite snapshot, however many non-finite
// ones follow, and waits if no other slot is free. And every state that the controller may restore
// has been read once. The end of a worker is reported after its seals.
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
  // `report` receives the reports in the order of the calls, on the loop's thread. All calls on
  // that thread.
  SnapshotCheck(io::EventLoop& loop, std::function<void(runtime::AgentInput)> report)
      : report_(std::move(report)), queue_(loop) {}

  // `arena` is the rank's; without one the seal is reported unchanged. A seal is not reported if
  // newer snapshots have replaced it: a newer seal follows.
  void Sealed(runtime::WorkerSealed sealed, const std::shared_ptr<const io::SharedMemory>& arena);
  // Reports the end of the worker, at once or after its pending seals.
  void Gone(runtime::WorkerGone sealed);
  void Drop(const JobId& job);

 private:
  using Place = std::pair<JobId, uint32_t>;
  struct Rank {
    std::shared_ptr<const io::SharedMemory> arena;
    std::optional<checkpoint::SnapshotPin> good;  // the newest; destroyed before its arena
    uint64_t pending = 0;                         // seals being scanned
  };
  struct Looked {
    runtime::WorkerSealed sealed;
    bool there = false;
    std::string bad;  // the tensor that is not finite; empty: none
    std::shared_ptr<const io::SharedMemory> arena;
    std::optional<checkpoint::SnapshotPin> pin;  // destroyed before its arena
  };
  static Looked Look(runtime::WorkerSealed sealed, std::shared_ptr<const io::SharedMemory> arena);
  void Finish(Looked& looked);

  const std::function<void(runtime::AgentInput)> report_;
  std::map<Place, Rank> ranks_;
  WorkQueue queue_;
};

}  // namespace longhaul::service
