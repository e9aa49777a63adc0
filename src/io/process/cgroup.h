// Control groups of Linux (cgroups(7), version 1 and 2): a group holds all processes of one job,
// however they were forked, limits their number and their memory, and ends them together.
//
// Version 2 is used where the group of this process has the controller `pids`, else version 1.
// Version 2 permits groups below a group only while it has no process of its own. This process
// therefore moves to a subgroup, `agent`, but only if it is alone in its group: others may have
// been started by somebody else. Version 1 has a folder for each controller.
//
// Groups compete for the processors with equal weights, whatever the number of their processes.
// Leaves out quotas of processor time and sets of cores.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/fd.h"

namespace longhaul::io {

// The folders of this process's group in each hierarchy; empty: not mounted, or not visible here.
struct CgroupPlaces {
  std::string unified;  // version 2
  std::string pids;     // version 1, as the next two
  std::string memory;
  std::string cpu;

  friend bool operator==(const CgroupPlaces&, const CgroupPlaces&) = default;
};

// Reads the texts of /proc/self/mountinfo and /proc/self/cgroup. Lines that it does not understand
// are ignored.
CgroupPlaces ParseCgroupPlaces(std::string_view mountinfo, std::string_view membership);

// 0: no limit.
struct CgroupLimits {
  uint64_t tasks = 0;  // processes and threads
  uint64_t memory_bytes = 0;
};

// One group. Removed by Remove only: a destructor could not wait for the end of its processes.
class Cgroup {
 public:
  // How often its processes have been refused a fork and have been killed for their memory.
  struct Counts {
    uint64_t forks_refused = 0;
    uint64_t memory_kills = 0;
  };

  // Descriptors for ProcessOptions::groups. Valid as long as this is.
  std::vector<int> entrances() const;
  // Moves a process that exists already, with its threads.
  Status Add(pid_t process) const;
  Counts counts() const;
  // At most 65,536 of them.
  std::vector<pid_t> Processes() const;
  // Sends SIGKILL to all its processes, and returns those that there were. Version 1 has no way to
  // do this at once: first no further fork is allowed.
  std::vector<pid_t> Kill() const;
  // Returns whether it is gone; false while a process of it has not ended.
  bool Remove() const;

 private:
  friend class CgroupFolder;
  Cgroup() = default;

  std::vector<std::string> folders_;  // one in each hierarchy, that of `pids` first
  std::vector<Fd> entrances_;
  std::string memory_folder_;  // empty: its memory is not limited
  bool unified_ = false;
};

// The place of the groups that one owner makes.
class CgroupFolder {
 public:
  // `owner` distinguishes these groups from those of other processes: letters, digits and '-'.
  // Ends and removes groups that an earlier process of this owner has left, and removes empty ones
  // of all owners that are older than an hour. Returns kUnavailable with the reason when no groups
  // can be made here.
  static Result<std::unique_ptr<CgroupFolder>> Open(const CgroupPlaces& places,
                                                    const std::string& owner);

  // Ends and removes what is left of this owner's groups.
  ~CgroupFolder() { RemoveStale(); }
  CgroupFolder(const CgroupFolder&) = delete;
  CgroupFolder& operator=(const CgroupFolder&) = delete;

  // `name`: letters, digits and '-'; not one that exists.
  Result<Cgroup> Make(const std::string& name, const CgroupLimits& limits) const;

  int version() const { return unified_ ? 2 : 1; }
  bool limits_memory() const { return !memory_.empty(); }
  const std::string& place() const { return pids_; }

 private:
  CgroupFolder() = default;
  static Result<std::string> PrepareUnified(const std::string& own);
  void RemoveStale() const;

  bool unified_ = false;
  std::string prefix_;
  std::string pids_, memory_, cpu_;  // folders; in version 2 the same or empty
};

// The places of this process; all empty where the system does not report them.
CgroupPlaces OwnCgroupPlaces();

}  // namespace longhaul::io
