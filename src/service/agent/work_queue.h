// Runs work that may block, one item at a time, on its own thread. The answers run on the event
// loop's thread.
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
  // Waits for the item under way; drops the others, and runs no more answers.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void Enqueue(Work work);

 private:
  void Run();

  io::EventLoop& loop_;
  // Shared with the callbacks on the loop, which may run after this object has ended.
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);

  std::mutex mutex_;  // guards the two below
  std::condition_variable changed_;
  bool stopping_ = false;
  std::deque<Work> queue_;

  std::thread thread_;
};

}  // namespace longhaul::service
