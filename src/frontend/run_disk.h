// The disk of a run's files: whether it has room before the run, and while it goes.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "io/event_loop.h"

namespace longhaul::frontend {

// Refuses a disk that is full where this path lies, and warns on standard error of one that is
// nearly full. The path need not exist.
Status CheckDisk(const std::string& run_directory);

// Looks at the disk each second. A full one stops all decisions of the controller, so that this
// process has to report it.
class DiskWatch {
 public:
  // Told whether the disk is full, at each change.
  using OnChange = std::function<void(bool full)>;

  // Requires that `loop` outlives this.
  DiskWatch(io::EventLoop& loop, std::string path, OnChange on_change);
  ~DiskWatch() { loop_.Cancel(timer_); }
  DiskWatch(const DiskWatch&) = delete;
  DiskWatch& operator=(const DiskWatch&) = delete;

 private:
  void Look();

  io::EventLoop& loop_;
  const std::string path_;
  const OnChange on_change_;
  bool full_ = false;
  io::EventLoop::TimerId timer_ = 0;
};

}  // namespace longhaul::frontend
