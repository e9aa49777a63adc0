#include "io/process/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "io/files/file.h"

namespace longhaul::io {
namespace {

constexpr uint64_t kLongestFile = 4 << 20;
constexpr size_t kMostProcesses = 65'536;
constexpr char kSubgroup[] = "/agent";  // of this process, in version 2
constexpr char kPrefix[] = "longhaul-";
// A group without processes of this age is no longer about to get its first one.
constexpr time_t kOldSeconds = 3600;

// A file of the kernel: it exists, and takes a value in one write.
Status Put(const std::string& path, std::string_view value) {
  const Fd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) return FromErrno(errno, "cannot open " + path);
  if (write(file.get(), value.data(), value.size()) < 0) {
    return FromErrno(errno, "cannot write " + std::string(value) + " to " + path);
  }
  return {};
}

bool IsOld(const std::string& folder) {
  struct stat facts {};
  return stat(folder.c_str(), &facts) == 0 && time(nullptr) - facts.st_mtime > kOldSeconds;
}

bool HasWord(const std::string& path, std::string_view word) {
  const Result<std::string> text = ReadText(path, kLongestFile);
  if (!text.ok()) return false;
  const std::vector<std::string_view> words = Split(Trim(*text), ' ');
  return std::ranges::find(words, word) != words.end();
}

// The number after `name` in a file with lines "NAME NUMBER"; 0 when it has none.
uint64_t CountIn(const std::string& path, std::string_view name) {
  const Result<std::string> text = ReadText(path, kLongestFile);
  if (!text.ok()) return 0;
  for (const std::string_view line : Split(*text, '\n')) {
    const std::vector<std::string_view> words = Split(line, ' ');
    if (words.size() != 2 || words[0] != name) continue;
    return ParseUint64(words[1]).ok() ? *ParseUint64(words[1]) : 0;
  }
  return 0;
}

std::vector<pid_t> ProcessesIn(const std::string& folder) {
  std::vector<pid_t> processes;
  const Result<std::string> text = ReadText(folder + "/cgroup.procs", kLongestFile);
  if (!text.ok()) return processes;
  for (const std::string_view line : Split(*text, '\n')) {
    const Result<int64_t> process = ParseInt64(line);
    // 0 is a process of another namespace, which this one cannot name.
    if (process.ok() && *process > 0) processes.push_back(static_cast<pid_t>(*process));
    if (processes.size() == kMostProcesses) break;
  }
  return processes;
}

std::vector<pid_t> KillIn(const std::string& folder, bool unified) {
  std::vector<pid_t> processes = ProcessesIn(folder);
  if (unified && Put(folder + "/cgroup.kill", "1").ok()) return processes;  // since Linux 5.14
  (void)Put(folder + "/pids.max", "0");
  // Listed again: some may have been forked before the limit.
  processes = ProcessesIn(folder);
  for (const pid_t process : processes) (void)kill(process, SIGKILL);
  return processes;
}

// "/a/b" below "/a" is "/b"; nothing when it is not below it.
std::optional<std::string> Below(std::string_view path, std::string_view root) {
  if (root == "/") return std::string(path == "/" ? "" : path);
  if (!path.starts_with(root)) return std::nullopt;
  const std::string_view rest = path.substr(root.size());
  if (!rest.empty() && rest.front() != '/') return std::nullopt;
  return std::string(rest);
}

// The path of this process in the hierarchy with this controller; "" names version 2.
std::optional<std::string_view> PathOf(std::string_view membership, std::string_view controller) {
  for (const std::string_view line : Split(membership, '\n')) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view list = line.substr(first + 1, second - first - 1);
    const std::vector<std::string_view> names = Split(list, ',');
    if (std::ranges::find(names, controller) != names.end()) return line.substr(second + 1);
  }
  return std::nullopt;
}

bool IsOctal(char c) { return c >= '0' && c <= '7'; }

// mountinfo writes spaces and other separators as \040.
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 3 < text.size() && IsOctal(text[i + 1]) &&
                        IsOctal(text[i + 2]) && IsOctal(text[i + 3]);
    if (!escape) {
      plain += text[i];
      continue;
    }
    plain +=
        static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return plain;
}

}  // namespace

CgroupPlaces ParseCgroupPlaces(std::string_view mountinfo, std::string_view membership) {
  // proc(5): number, parent, device, root, mount point, options, ..., "-", type, source, options.
  constexpr size_t kRoot = 3, kPoint = 4;
  CgroupPlaces places;
  for (const std::string_view line : Split(mountinfo, '\n')) {
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const std::vector<std::string_view> mount = Split(line.substr(0, dash), ' ');
    const std::vector<std::string_view> system = Split(line.substr(dash + 3), ' ');
    if (mount.size() <= kPoint || system.size() < 3) continue;
    const auto take = [&](std::string& place, std::string_view controller) {
      const auto path = PathOf(membership, controller);
      if (!path.has_value() || !place.empty()) return;
      const auto below = Below(*path, Unescaped(mount[kRoot]));
      if (below.has_value()) place = Unescaped(mount[kPoint]) + *below;
    };
    if (system[0] == "cgroup2") take(places.unified, "");
    if (system[0] != "cgroup") continue;
    const std::vector<std::string_view> options = Split(system[2], ',');
    const auto has = [&](std::string_view option) {
      return std::ranges::find(options, option) != options.end();
    };
    if (has("pids")) take(places.pids, "pids");
    if (has("memory")) take(places.memory, "memory");
    if (has("cpu")) take(places.cpu, "cpu");
  }
  return places;
}

CgroupPlaces OwnCgroupPlaces() {
  const Result<std::string> mounts = ReadText("/proc/self/mountinfo", kLongestFile);
  const Result<std::string> membership = ReadText("/proc/self/cgroup", kLongestFile);
  if (!mounts.ok() || !membership.ok()) return {};
  return ParseCgroupPlaces(*mounts, *membership);
}

std::vector<int> Cgroup::entrances() const {
  std::vector<int> descriptors;
  for (const Fd& entrance : entrances_) descriptors.push_back(entrance.get());
  return descriptors;
}

Status Cgroup::Add(pid_t process) const {
  const std::string number = std::to_string(process);
  for (size_t i = 0; i < entrances_.size(); ++i) {
    if (write(entrances_[i].get(), number.data(), number.size()) >= 0) continue;
    return FromErrno(errno, "cannot move process " + number + " to " + folders_[i]);
  }
  return {};
}

Cgroup::Counts Cgroup::counts() const {
  Counts counts;
  counts.forks_refused = CountIn(folders_.front() + "/pids.events", "max");
  if (memory_folder_.empty()) return counts;
  const std::string events = memory_folder_ + (unified_ ? "/memory.events" : "/memory.oom_control");
  counts.memory_kills = CountIn(events, "oom_kill");
  // Those that the whole machine's lack of memory caused are not the group's own.
  if (unified_) counts.memory_kills = std::min(counts.memory_kills, CountIn(events, "oom"));
  return counts;
}

std::vector<pid_t> Cgroup::Processes() const { return ProcessesIn(folders_.front()); }

std::vector<pid_t> Cgroup::Kill() const { return KillIn(folders_.front(), unified_); }

bool Cgroup::Remove() const {
  bool gone = true;
  for (const std::string& folder : folders_) {
    if (rmdir(folder.c_str()) != 0 && errno != ENOENT) gone = false;
  }
  return gone;
}

// Returns the folder below which groups can be made.
Result<std::string> CgroupFolder::PrepareUnified(const std::string& own) {
  std::string base = own;
  if (base.ends_with(kSubgroup)) {
    base.resize(base.size() - (sizeof(kSubgroup) - 1));  // moved there by its service manager
  } else {
    const std::vector<pid_t> processes = ProcessesIn(own);
    if (processes != std::vector<pid_t>{getpid()}) {
      return Unavailable("the control group " + own + " has " + std::to_string(processes.size()) +
                         " processes, and the agent must be alone in it");
    }
    const std::string subgroup = own + kSubgroup;
    if (mkdir(subgroup.c_str(), 0755) != 0 && errno != EEXIST) {
      return FromErrno(errno, "cannot make the control group " + subgroup);
    }
    RETURN_IF_ERROR(Put(subgroup + "/cgroup.procs", "0"));
  }
  if (access((base + "/cgroup.procs").c_str(), W_OK) != 0) {
    return FromErrno(errno, "cannot make control groups in " + base);
  }
  RETURN_IF_ERROR(Put(base + "/cgroup.subtree_control", "+pids"));
  (void)Put(base + "/cgroup.subtree_control", "+memory");
  (void)Put(base + "/cgroup.subtree_control", "+cpu");
  return base;
}

Result<std::unique_ptr<CgroupFolder>> CgroupFolder::Open(const CgroupPlaces& places,
                                                         const std::string& owner) {
  std::unique_ptr<CgroupFolder> folder(new CgroupFolder());
  folder->prefix_ = std::string(kPrefix) + owner + "-";
  const bool has_unified =
      !places.unified.empty() && HasWord(places.unified + "/cgroup.controllers", "pids");
  if (has_unified) {
    folder->unified_ = true;
    ASSIGN_OR_RETURN(folder->pids_, PrepareUnified(places.unified));
    if (HasWord(folder->pids_ + "/cgroup.subtree_control", "memory")) {
      folder->memory_ = folder->pids_;
    }
  } else if (!places.pids.empty()) {
    if (access((places.pids + "/cgroup.procs").c_str(), W_OK) != 0) {
      return Unavailable("the control group " + places.pids + " is not writable by this user");
    }
    folder->pids_ = places.pids;
    const auto writable = [](const std::string& place) {
      const bool can_write = !place.empty() && access((place + "/cgroup.procs").c_str(), W_OK) == 0;
      return can_write ? place : std::string();
    };
    folder->memory_ = writable(places.memory);
    folder->cpu_ = writable(places.cpu);
  } else {
    return Unavailable("no control group with the controller pids is mounted");
  }
  folder->RemoveStale();
  return folder;
}

void CgroupFolder::RemoveStale() const {
  for (const std::string& place : {pids_, memory_, cpu_}) {
    if (place.empty()) continue;
    std::error_code error;
    std::vector<std::string> stale;
    std::vector<std::string> others;
    for (const auto& entry : std::filesystem::directory_iterator(place, error)) {
      const std::string name = entry.path().filename();
      if (name.starts_with(prefix_)) stale.push_back(entry.path());
      if (name.starts_with(kPrefix) && IsOld(entry.path())) others.push_back(entry.path());
    }
    // Fails for one that is in use: only a group without processes can be removed.
    for (const std::string& group : others) (void)rmdir(group.c_str());
    for (const std::string& group : stale) {
      (void)KillIn(group, unified_);
      (void)rmdir(group.c_str());  // one whose processes still end is removed the next time
    }
  }
}

Result<Cgroup> CgroupFolder::Make(const std::string& name, const CgroupLimits& limits) const {
  Cgroup group;
  group.unified_ = unified_;
  std::vector<std::string> places = {pids_};
  const bool limits_memory = limits.memory_bytes > 0 && !memory_.empty();
  if (limits_memory && !unified_) places.push_back(memory_);
  if (!cpu_.empty() && cpu_ != pids_) places.push_back(cpu_);
  const auto fail = [&group](const Status& why) {
    (void)group.Remove();
    return why;
  };
  for (const std::string& place : places) {
    std::string folder = place + "/" + prefix_ + name;
    if (mkdir(folder.c_str(), 0755) != 0) {
      return fail(FromErrno(errno, "cannot make the control group " + folder));
    }
    group.folders_.push_back(folder);
    group.entrances_.emplace_back(open((folder + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
    if (!group.entrances_.back().valid()) {
      return fail(FromErrno(errno, "cannot open " + folder + "/cgroup.procs"));
    }
  }
  if (limits.tasks > 0) {
    const Status put = Put(group.folders_[0] + "/pids.max", std::to_string(limits.tasks));
    if (!put.ok()) return fail(put);
  }
  if (!limits_memory) return group;
  group.memory_folder_ = memory_ + "/" + prefix_ + name;
  const std::string bytes = std::to_string(limits.memory_bytes);
  const Status put =
      Put(group.memory_folder_ + (unified_ ? "/memory.max" : "/memory.limit_in_bytes"), bytes);
  if (!put.ok()) return fail(put);
  // Swap would only delay the end, and slow the machine for others. Absent without swap.
  if (unified_) {
    (void)Put(group.memory_folder_ + "/memory.swap.max", "0");
    (void)Put(group.memory_folder_ + "/memory.oom.group", "1");
  } else {
    (void)Put(group.memory_folder_ + "/memory.memsw.limit_in_bytes", bytes);
  }
  return group;
}

}  // namespace longhaul::io
