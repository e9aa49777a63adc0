// A snapshot's copy into the arena by a thread of its own, from memory that nobody writes until it
// is done: page-locked buffers into which a device has copied the state, for example.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/status.h"
#include "checkpoint/arena.h"

namespace longhaul::worker_api {

class StagedCopy {
 public:
  // `writer` has a slot open for tensors of these sizes. The thread calls `ready` first, unless it
  // is empty: it returns when the memory holds the state, or the error that prevents that.
  StagedCopy(std::unique_ptr<checkpoint::ArenaWriter> writer,
             std::vector<std::span<const std::byte>> tensors, size_t threads,
             std::function<Status()> ready);
  StagedCopy(const StagedCopy&) = delete;
  StagedCopy& operator=(const StagedCopy&) = delete;
  ~StagedCopy();  // waits

  bool done() const { return done_; }
  // Waits. After an error of `ready` the slot stays unsealed.
  Status Finish();

 private:
  Status Copy(const std::function<Status()>& ready);

  const std::unique_ptr<checkpoint::ArenaWriter> writer_;
  const std::vector<std::span<const std::byte>> tensors_;
  const size_t threads_;
  Status status_;  // of the thread, once done_
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace longhaul::worker_api
