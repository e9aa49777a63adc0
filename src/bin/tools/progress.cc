#include "bin/tools/progress.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <utility>

#include "base/units.h"
#include "bin/command.h"

namespace longhaul::bin {
namespace {

std::atomic<bool> interrupted = false;  // written by a signal handler

extern "C" void OnProgressInterrupt(int) { interrupted = true; }

constexpr auto kBetweenLines = std::chrono::milliseconds(100);

}  // namespace

Progress::Progress(std::string what) : what_(std::move(what)), terminal_(isatty(2) != 0) {
  struct sigaction action {};
  action.sa_handler = OnProgressInterrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, &before_);
}

Progress::~Progress() {
  sigaction(SIGINT, &before_, nullptr);
  if (shown_) std::fprintf(stderr, "\r\033[K");
}

bool Progress::Seen(uint64_t done, uint64_t total) {
  const auto now = std::chrono::steady_clock::now();
  if (terminal_ && now - last_ >= kBetweenLines) {
    last_ = now;
    shown_ = true;
    const double percent =
        total > 0 ? 100.0 * static_cast<double>(done) / static_cast<double>(total) : 100.0;
    std::fprintf(stderr, "\r\033[K%s %.0f %% of %s", what_.c_str(), percent,
                 ToString(Bytes(static_cast<int64_t>(total))).c_str());
  }
  return !interrupted;
}

int FailOrStopped(const Status& status) {
  Fail(status);
  return status.code() == Code::kCancelled ? kExitStopped : kExitFailure;
}

}  // namespace longhaul::bin
