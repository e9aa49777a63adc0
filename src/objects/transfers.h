// Concurrent requests: threads that run work which would otherwise be done one piece after the
// other.
//
// An object store answers a request after milliseconds and sends it at a part of the network's
// rate, so a large file is transferred by several requests. Threads start when there is work for
// them. With a limit of one there is no thread: Start does the work itself.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"

namespace longhaul::objects {

class Transfers {
 public:
  // At most `requests` at a time. Requires requests >= 1.
  explicit Transfers(size_t requests);
  // Blocks until all started work has ended.
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  size_t requests() const { return requests_; }
  // All that `work` refers to must live until the future is ready. Work must not wait for other
  // work. Any thread may call it.
  std::future<Status> Start(std::function<Status()> work);

 private:
  void Run();

  const size_t requests_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<Status()>> waiting_;
  size_t idle_ = 0;  // threads without work
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace longhaul::objects
