// The agent's work with other agents' memories: copies of ours to the peer, copies from a holder
// into an arena here. Two threads, so that a fetch, which training waits for, never stands behind a
// copy, which it doesn't.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "io/event_loop.h"
#include "io/memory/shared_memory.h"
#include "runtime/agent/agent_messages.h"
#include "service/agent/peer/gather.h"
#include "service/agent/work_queue.h"

namespace longhaul::service {

class PeerWorker {
 public:
  // `answer` is called on the loop's thread with CopiesSent. Copies are sent at
  // `bytes_per_second` at most (0: as fast as it goes). All calls on the loop's thread.
  PeerWorker(io::EventLoop& loop, std::string secret, uint64_t bytes_per_second,
             std::function<void(runtime::AgentInput)> answer);

  // `arenas` are those of work.ranks; null where a rank has none.
  void Send(runtime::SendCopies work, std::vector<std::shared_ptr<const io::SharedMemory>> arenas);

  // The snapshot that `restore` names, as the arena of `rank`, verified and sealed.
  struct Fetched {
    std::shared_ptr<const io::SharedMemory> arena;
    uint64_t bytes = 0;
  };
  void Fetch(const JobId& job, uint32_t rank, const proto::Restore& restore,
             std::function<void(const Result<Fetched>&)> done);

  // As gather.h; `order.secret` is filled in here. `memory` must outlive this.
  void Gather(GatherOrder order, const PeerMemory& memory,
              std::function<void(const Gathered&)> done);

 private:
  const std::string secret_;
  const uint64_t bytes_per_second_;
  const std::function<void(runtime::AgentInput)> answer_;
  WorkQueue sends_;
  WorkQueue fetches_;
};

}  // namespace longhaul::service
