#include "objects/transfers.h"

#include <utility>

#include "base/check.h"

namespace longhaul::objects {

Transfers::Transfers(size_t requests) : requests_(requests) { CHECK(requests >= 1); }

Transfers::~Transfers() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::future<Status> Transfers::Start(std::function<Status()> work) {
  std::packaged_task<Status()> task(std::move(work));
  std::future<Status> done = task.get_future();
  if (requests_ == 1) {
    task();
    return done;
  }
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(task));
  if (idle_ < waiting_.size() && threads_.size() < requests_) {
    threads_.emplace_back([this] { Run(); });
  }
  changed_.notify_one();
  return done;
}

void Transfers::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) return;
    std::packaged_task<Status()> task = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace longhaul::objects
