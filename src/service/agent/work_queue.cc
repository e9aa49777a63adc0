#include "service/agent/work_queue.h"

#include <utility>

namespace longhaul::service {

WorkQueue::WorkQueue(io::EventLoop& loop) : loop_(loop), thread_([this] { Run(); }) {}

WorkQueue::~WorkQueue() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void WorkQueue::Enqueue(Work work) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void WorkQueue::Run() {
  for (;;) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    loop_.Post([alive = std::weak_ptr(alive_), answer = work()] {
      if (!alive.expired()) answer();
    });
  }
}

}  // namespace longhaul::service
