#include "io/files/owner_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <thread>
#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "io/files/file.h"

namespace longhaul::io {
namespace {

constexpr uint64_t kLongestText = 512;
constexpr Duration kFirstPause = std::chrono::milliseconds(10);
constexpr Duration kLongestPause = std::chrono::milliseconds(500);

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown host";
}

// "PURPOSE, process PID on HOST". The number stands last but two, so Identity can look it up.
std::string OwnText(const std::string& purpose) {
  return purpose + ", process " + std::to_string(getpid()) + " on " + HostName();
}

// Who holds the lock, in words.
std::string Identity(const std::string& path) {
  const Result<std::string> text = ReadText(path, kLongestText);
  std::string owner = text.ok() ? std::string(Trim(*text)) : "";
  std::erase_if(owner, [](char c) { return c < ' ' || c > '~'; });
  if (owner.empty()) return "another process";
  const std::string marker = ", process ";
  const size_t at = owner.rfind(marker);
  if (at == std::string::npos || !owner.ends_with(" on " + HostName())) return owner;
  const std::string rest = owner.substr(at + marker.size());
  const Result<int64_t> pid = ParseInt64(rest.substr(0, rest.find(' ')));
  const bool ended = pid.ok() && *pid > 0 && *pid <= INT32_MAX &&
                     kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH;
  return ended ? owner + ", which has ended; processes that it started are still ending" : owner;
}

}  // namespace

Result<OwnerLock> OwnerLock::Take(const std::string& folder, const std::string& purpose) {
  const std::string path = folder + "/owner.lock";
  Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return FromErrno(errno, "cannot open the lock file " + path);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FromErrno(errno, "cannot lock " + path);
    return AlreadyExists(folder + " is in use by " + Identity(path));
  }
  // The text only serves messages, so a disk that is full does not matter.
  const std::string text = OwnText(purpose) + "\n";
  if (ftruncate(fd.get(), 0) == 0) (void)!pwrite(fd.get(), text.data(), text.size(), 0);
  return OwnerLock(std::move(fd));
}

Result<OwnerLock> OwnerLock::TakeWithin(const std::string& folder, const std::string& purpose,
                                        Duration limit,
                                        const std::function<void(const std::string&)>& waits) {
  const Instant deadline = MonotonicNow() + limit;
  Duration pause = kFirstPause;
  for (bool first = true;; first = false) {
    Result<OwnerLock> lock = Take(folder, purpose);
    if (lock.ok() || lock.status().code() != Code::kAlreadyExists) return lock;
    if (MonotonicNow() >= deadline) return lock;
    if (first && waits) waits(lock.status().message());
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace longhaul::io
