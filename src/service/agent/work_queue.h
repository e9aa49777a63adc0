// Work that may block, one piece after the other on a thread of its own; answers come back on the
// event loop's thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "io/event_loop.h"
#include "runtime/agent/agent_messages.h"

namespace longhaul::service {

class WorkQueue {
 public:
  using Answer = std::function<void()>;  // run on the loop's thread
  using Work = std::function<Answer()>;  // run on the queue's

  // `loop` must outlive this. All calls on the loop's thread.
  explicit WorkQueue(io::EventLoop& loop);
  // Finishes the piece under way; what has not begun is dropped, nothing is answered any more.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void Enqueue(Work work);

 private:
  void Run();

  io::EventLoop& loop_;
  // Shared with what is posted to the loop, which may run after we are gone.
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);

  std::mutex mutex_;  // guards the two below
  std::condition_variable changed_;
  bool stopping_ = false;
  std::deque<Work> queue_;

  std::thread thread_;
};

}  // namespace longhaul::service
