#include "service/agent/output/output_copier.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "io/clock.h"

namespace longhaul::service {
namespace {

constexpr Duration kCopyPeriod = std::chrono::milliseconds(100);
constexpr Duration kLastTime = std::chrono::seconds(1);
constexpr size_t kCopyAtOnce = 64 << 10;
// A pipe that is ready takes so much without blocking (POSIX, PIPE_BUF).
constexpr size_t kWriteAtOnce = 4096;
constexpr int kPollMs = 50;

}  // namespace

OutputCopier::OutputCopier(int target) : target_(target), thread_([this] { Run(); }) {}

OutputCopier::~OutputCopier() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    stops_at_ = io::MonotonicNow() + kLastTime;
    for (const auto& [worker, file] : files_) file->ended = true;
  }
  wake_.notify_one();
  thread_.join();
}

Status OutputCopier::Follow(const runtime::WorkerId& worker, const std::string& path,
                            uint64_t begin) {
  auto file = std::make_shared<File>();
  file->log = io::Fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file->log.valid()) return FromErrno(errno, "cannot read " + path);
  file->offset = begin;
  file->prefix = "[rank " + std::to_string(worker.rank) + "] ";
  {
    const std::lock_guard lock(mutex_);
    files_[worker] = std::move(file);
  }
  wake_.notify_one();
  return {};
}

void OutputCopier::Finish(const runtime::WorkerId& worker) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(worker);
  if (found != files_.end()) found->second->ended = true;
}

void OutputCopier::Run() {
  for (;;) {
    std::vector<std::pair<runtime::WorkerId, std::shared_ptr<File>>> files;
    std::vector<runtime::WorkerId> ended;
    bool stops = false;
    {
      std::unique_lock lock(mutex_);
      files.assign(files_.begin(), files_.end());
      for (const auto& [worker, file] : files) {
        if (file->ended) ended.push_back(worker);
      }
      stops = stops_;
    }
    bool copied = false;
    for (const auto& [worker, file] : files) copied = Copy(*file) || copied;
    if (copied && !IsLate()) continue;  // those that have ended may have more
    for (const auto& [worker, file] : files) {
      const bool is_last = std::find(ended.begin(), ended.end(), worker) != ended.end();
      if (is_last && !file->unfinished.empty()) {
        (void)Write(file->prefix + file->unfinished + "\n");
      }
    }
    std::unique_lock lock(mutex_);
    for (const runtime::WorkerId& worker : ended) files_.erase(worker);
    if (stops) return;
    if (!stops_) wake_.wait_for(lock, kCopyPeriod);
  }
}

bool OutputCopier::IsLate() {
  const std::lock_guard lock(mutex_);
  return stops_ && io::MonotonicNow() >= stops_at_;
}

bool OutputCopier::Copy(File& file) {
  std::string bytes(kCopyAtOnce, '\0');
  const ssize_t got =
      pread(file.log.get(), bytes.data(), bytes.size(), static_cast<off_t>(file.offset));
  if (got <= 0) return false;
  file.offset += static_cast<uint64_t>(got);
  std::string lines;
  for (const char c : std::string_view(bytes).substr(0, static_cast<size_t>(got))) {
    if (c != '\n') file.unfinished += c;
    if (c != '\n' && file.unfinished.size() < kLongestLine) continue;
    lines += file.prefix + file.unfinished + "\n";
    file.unfinished.clear();
  }
  return Write(lines);
}

// Returns false if nobody reads in time, or nobody can read any more.
bool OutputCopier::Write(std::string_view text) {
  while (!text.empty()) {
    pollfd wanted = {target_, POLLOUT, 0};
    const int ready = poll(&wanted, 1, kPollMs);
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) {
      if (IsLate()) return false;
      continue;
    }
    const ssize_t put = write(target_, text.data(), std::min(text.size(), kWriteAtOnce));
    if (put < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (put > 0) text.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

}  // namespace longhaul::service
