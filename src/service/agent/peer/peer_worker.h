// Transfers between this agent's memory and others: copies to the peer, and fetches from a holder
// into an arena here. Two threads, so that a fetch, for which training waits, is never queued
// behind a copy.
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
  // Calls `answer` on the loop's thread with CopiesSent. Sends copies at `bytes_per_second` at most
  // (0: no limit). All calls on the loop's thread.
  PeerWorker(io::EventLoop& loop, std::string secret, uint64_t bytes_per_second,
             std::function<void(runtime::AgentInput)> answer);

  // `arenas` are those of work.ranks; null for a rank without one.
  void Send(runtime::SendCopies work, std::vector<std::shared_ptr<const io::SharedMemory>> arenas);

  // The snapshot that `restore` names, verified and sealed in an arena for `rank`.
  struct Fetched {
    std::shared_ptr<const io::SharedMemory> arena;
    uint64_t bytes = 0;
  };
  void Fetch(const JobId& job, uint32_t rank, const proto::Restore& restore,
             std::function<void(const Result<Fetched>&)> done);

  // As in gather.h; sets `order.secret`. `memory` must outlive this.
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
