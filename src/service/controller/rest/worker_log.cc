#include "service/controller/rest/worker_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/text.h"
#include "io/fd.h"
#include "io/files/file.h"

namespace longhaul::service {
namespace {

constexpr uint64_t kLargestPart = 8 << 20;

// Opens a log. The workers can write to the run directory, so its names may be links to what the
// controller may read but the client may not, or FIFOs, on which a thread would block: a name below
// the run directory that is a link, and all but a regular file, count as no log.
io::Fd OpenLog(const std::string& run_directory, uint64_t attempt, uint32_t rank) {
  constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  io::Fd place(::open(run_directory.c_str(), kDirectory));
  for (const std::string& name : {std::string("logs"), "attempt-" + std::to_string(attempt)}) {
    if (!place.valid()) return place;
    place = io::Fd(::openat(place.get(), name.c_str(), kDirectory | O_NOFOLLOW));
  }
  if (!place.valid()) return place;
  const std::string name = "rank-" + std::to_string(rank) + ".log";
  io::Fd file(::openat(place.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return file;
}

// The attempts that have logs, newest first.
std::vector<uint64_t> Attempts(const std::string& run_directory) {
  std::vector<uint64_t> attempts;
  const auto names = io::PosixFileSystem().List(run_directory + "/logs");
  if (!names.ok()) return attempts;
  for (const std::string& name : *names) {
    constexpr std::string_view kPrefix = "attempt-";
    if (!name.starts_with(kPrefix)) continue;
    const Result<uint64_t> attempt = ParseUint64(std::string_view(name).substr(kPrefix.size()));
    if (attempt.ok()) attempts.push_back(*attempt);
  }
  std::sort(attempts.rbegin(), attempts.rend());
  return attempts;
}

}  // namespace

// Without an attempt, the newest one that has a log of this rank: after a change of size the newest
// attempt may not have the rank.
Result<LogPart> ReadWorkerLog(const std::string& run_directory, const LogQuery& query) {
  std::vector<uint64_t> attempts;
  if (query.attempt.has_value()) {
    attempts = {*query.attempt};
  } else {
    attempts = Attempts(run_directory);
  }
  io::Fd file;
  LogPart part;
  for (const uint64_t attempt : attempts) {
    part.attempt = attempt;
    file = OpenLog(run_directory, attempt, query.rank);
    if (file.valid()) break;
  }
  if (!file.valid()) {
    return NotFound(
        "no log of rank " + std::to_string(query.rank) +
        (query.attempt.has_value() ? " in attempt " + std::to_string(*query.attempt)
                                   : std::string()) +
        " in " + run_directory +
        "/logs, where the controller looks; it reads logs of other machines only from a "
        "file system that it shares with them");
  }
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  if (size < 0) return FromErrno(errno, "cannot read a log");
  const auto bytes = static_cast<uint64_t>(size);
  const uint64_t limit = std::min(query.bytes, kLargestPart);
  // Without a position, the end of the log.
  part.from = std::min(query.from.value_or(bytes - std::min(bytes, limit)), bytes);
  part.text.resize(std::min(bytes - part.from, limit));
  const ssize_t got =
      ::pread(file.get(), part.text.data(), part.text.size(), static_cast<off_t>(part.from));
  if (got < 0) return FromErrno(errno, "cannot read a log");
  part.text.resize(static_cast<size_t>(got));
  part.end = part.from + part.text.size();
  return part;
}

}  // namespace longhaul::service
