// The agent's copies to and from the second tier, one at a time on its own thread: committed
// checkpoints to a shared directory or an object store, and back.
//
// Each run has its own place there, COPY_TO/RUN, laid out as its directory of checkpoints. A copy
// is limited in bandwidth, verified during the transfer, and committed by writing its manifest
// last. Then the run's retention is applied there too.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "io/event_loop.h"
#include "runtime/agent/agent_messages.h"
#include "service/agent/work_queue.h"

namespace longhaul::service {

// Returns the run's place on the second tier, which is named by the last part of `run_directory`.
std::string CopyPlace(const std::string& copy_to, const std::string& run_directory);

class CopyWorker {
 public:
  // Calls `answer` on the loop's thread with CheckpointCopied or CheckpointFetched, in order.
  // `loop` must outlive this. All calls on the loop's thread. The destructor abandons the copy
  // under way, which does not count without a manifest.
  CopyWorker(io::EventLoop& loop, std::function<void(runtime::AgentInput)> answer);
  ~CopyWorker();
  CopyWorker(const CopyWorker&) = delete;
  CopyWorker& operator=(const CopyWorker&) = delete;

  void Copy(runtime::CopyOut work, std::string run_directory);
  void Fetch(runtime::FetchBack work, std::string run_directory);

 private:
  const std::function<void(runtime::AgentInput)> answer_;
  // Shared with the work on the queue's thread.
  const std::shared_ptr<std::atomic<bool>> stop_ = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<WorkQueue> queue_;
};

}  // namespace longhaul::service
