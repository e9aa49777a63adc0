// The agent's work for the second tier, one piece after the other on a thread of its own: committed
// checkpoints to a shared directory or an object store, and back.
//
// Each run has a place of its own there, COPY_TO/RUN, laid out as its directory of checkpoints. A
// copy is bounded in bandwidth, verified on its way, and committed by its manifest as the last
// thing; the run's retention then holds there too.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "io/event_loop.h"
#include "runtime/agent/agent_messages.h"
#include "service/agent/work_queue.h"

namespace longhaul::service {

// The run's place on the second tier. `run_directory` is the run's own: its last part names it.
std::string CopyPlace(const std::string& copy_to, const std::string& run_directory);

class CopyWorker {
 public:
  // `answer` is called on the loop's thread with CheckpointCopied or CheckpointFetched, in order.
  // `loop` must outlive this. All calls on the loop's thread. At its end the piece under way is
  // given up: without a manifest it never counts.
  CopyWorker(io::EventLoop& loop, std::function<void(runtime::AgentInput)> answer);
  ~CopyWorker();
  CopyWorker(const CopyWorker&) = delete;
  CopyWorker& operator=(const CopyWorker&) = delete;

  void Copy(runtime::CopyOut work, std::string run_directory);
  void Fetch(runtime::FetchBack work, std::string run_directory);

 private:
  const std::function<void(runtime::AgentInput)> answer_;
  // Shared with what runs on the queue's thread.
  const std::shared_ptr<std::atomic<bool>> stop_ = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<WorkQueue> queue_;
};

}  // namespace longhaul::service
