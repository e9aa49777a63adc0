#include "service/agent/snapshot_keeper/adoption.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/text.h"
#include "io/files/file.h"
#include "io/memory/shared_memory.h"
#include "io/process/process.h"

namespace longhaul::service {
namespace {

constexpr int kEndPatienceMs = 5000;

std::string NameOf(const KeptArena& kept) {
  return std::string(kept.copy ? "the copy of rank " : "rank ") + std::to_string(kept.rank) +
         " of job " + Printable(kept.job);
}

struct Looked {
  AdoptedArena arena;
  std::vector<std::string> notes;
};

Looked LookInto(const KeptArena& kept) {
  Looked looked{{kept, 0, {}}, {}};
  const std::span<std::byte> memory = kept.arena->bytes();
  looked.arena.bytes = memory.size();
  const checkpoint::ArenaReader reader(memory);
  for (const checkpoint::SealedSnapshot& snapshot : reader.ListSealed()) {
    const Status whole = reader.VerifySlot(snapshot.slot);
    if (whole.ok() && snapshot.non_finite) {
      looked.notes.push_back(NameOf(kept) + ": step " + std::to_string(snapshot.step) +
                             " is non-finite, not offered");
      continue;
    }
    if (whole.ok()) {
      looked.arena.sealed.push_back(snapshot);
      continue;
    }
    checkpoint::ArenaWriter(memory).DropSlot(snapshot.slot);
    looked.notes.push_back(NameOf(kept) + ": removed what is damaged: " + whole.message());
  }
  if (looked.arena.sealed.empty()) {
    looked.notes.push_back(NameOf(kept) + ": nothing sealed is left in it, removed");
  }
  return looked;
}

// Whether the process has one of these inodes mapped.
bool Maps(const std::string& pid, const std::set<uint64_t>& inodes) {
  std::ifstream maps("/proc/" + pid + "/maps");
  std::string line;
  while (std::getline(maps, line)) {
    if (line.find("/memfd:longhaul-") == std::string::npos) continue;
    unsigned long long inode = 0;
    if (std::sscanf(line.c_str(), "%*s %*s %*s %*s %llu", &inode) == 1 && inodes.contains(inode)) {
      return true;
    }
  }
  return false;
}

// Whether the process has a descriptor of one of these inodes. A worker has it before it maps the
// arena.
bool Holds(const std::string& pid, const std::set<uint64_t>& inodes) {
  std::error_code error;
  const std::filesystem::path folder = "/proc/" + pid + "/fd";
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unreadable;
    const std::string target = std::filesystem::read_symlink(entry->path(), unreadable).string();
    struct stat facts {};
    if (target.starts_with("/memfd:longhaul-") && stat(entry->path().c_str(), &facts) == 0 &&
        inodes.contains(facts.st_ino)) {
      return true;
    }
  }
  return false;
}

}  // namespace

Adoption Adopt(std::vector<KeptArena> kept, unsigned threads) {
  std::vector<Looked> looked(kept.size());
  std::atomic<size_t> next{0};
  const auto look = [&] {
    for (size_t i = next++; i < kept.size(); i = next++) looked[i] = LookInto(kept[i]);
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min<size_t>(threads, kept.size()); ++i) others.emplace_back(look);
  look();
  for (std::thread& other : others) other.join();

  Adoption adoption;
  for (Looked& each : looked) {
    std::move(each.notes.begin(), each.notes.end(), std::back_inserter(adoption.notes));
    if (each.arena.sealed.empty()) {
      adoption.dropped.push_back(std::move(each.arena.kept));
    } else {
      adoption.adopted.push_back(std::move(each.arena));
    }
  }
  return adoption;
}

Result<std::vector<std::string>> EndUsers(const std::vector<KeptArena>& kept, int64_t spared) {
  std::set<uint64_t> inodes;
  for (const KeptArena& each : kept) {
    struct stat facts {};
    if (fstat(each.arena->fd().get(), &facts) == 0) inodes.insert(facts.st_ino);
  }
  std::vector<std::string> ended;
  if (inodes.empty()) return ended;
  ASSIGN_OR_RETURN(const std::vector<std::string> entries, io::PosixFileSystem().List("/proc"));
  for (const std::string& entry : entries) {
    const Result<int64_t> pid = ParseInt64(entry);
    if (!pid.ok() || *pid == getpid() || *pid == spared) continue;
    struct stat facts {};
    if (stat(("/proc/" + entry).c_str(), &facts) != 0 || facts.st_uid != geteuid()) continue;
    // Opened before the look: what is killed is what was looked at.
    const Result<io::Fd> pidfd = io::OpenPidfd(static_cast<pid_t>(*pid));
    if (!pidfd.ok() || !(Holds(entry, inodes) || Maps(entry, inodes))) continue;
    (void)io::Signal(*pidfd, SIGKILL);
    pollfd wanted{pidfd->get(), POLLIN, 0};
    if (poll(&wanted, 1, kEndPatienceMs) <= 0) {
      return DeadlineExceeded("process " + entry + " still uses an arena and doesn't end");
    }
    ended.push_back("process " + entry + " of the agent before still used an arena: ended");
  }
  return ended;
}

}  // namespace longhaul::service
