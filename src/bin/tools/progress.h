// The progress of a long command, and its interruption by Ctrl-C.
#pragma once

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace longhaul::bin {

constexpr int kExitStopped = 130;  // the code that shells use for an interrupt

// The progress line of a long command, on standard error where that is a terminal. Ctrl-C makes the
// next call return false; a second one ends the process as usual.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool Seen(uint64_t done, uint64_t total);
  std::function<bool(uint64_t, uint64_t)> Callback() {
    return [this](uint64_t done, uint64_t total) { return Seen(done, total); };
  }

 private:
  std::string what_;
  bool terminal_ = false;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
  struct sigaction before_ {};
};

// Prints the status and returns the exit code: that of an interrupt for kCancelled.
int FailOrStopped(const Status& status);

}  // namespace longhaul::bin
