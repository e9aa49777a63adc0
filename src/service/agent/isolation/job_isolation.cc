#include "service/agent/isolation/job_isolation.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>

#include "base/check.h"
#include "base/units.h"
#include "io/clock.h"
#include "io/log/log.h"
#include "io/process/process_table.h"

namespace longhaul::service {
namespace {

// All processes are listed at least this often: the cheap look at the machine's number of tasks
// does not see a job that grows while others end.
constexpr Duration kListPeriod = std::chrono::seconds(5);
// The same for jobs with a limit of memory, whose growth no cheap look shows.
constexpr Duration kMemoryPeriod = std::chrono::seconds(1);

// Passes of stopping what starts processes without end. Two or three are the rule: one that stops,
// and one that finds all of them stopped. A process in an uninterruptible wait does not stop.
constexpr int kStopPasses = 20;

ReachedLimit TooManyTasks(const JobLimits& limits) {
  return {"the job has reached its limit of " + std::to_string(limits.tasks) +
              " processes and threads on a node (limits.processes): it starts processes without "
              "end, or needs a higher limit",
          true};
}

// A leak is reached late, and a restart from a checkpoint gains time: the job is restarted.
ReachedLimit TooMuchMemory(const JobLimits& limits) {
  return {"the job has reached its limit of " +
              ToString(Bytes(static_cast<int64_t>(limits.memory_bytes))) +
              " of memory on a node (limits.memory)",
          false};
}

uint64_t MemoryOf(const std::vector<pid_t>& processes) {
  uint64_t bytes = 0;
  for (const pid_t process : processes) bytes += io::OwnMemory(process);
  return bytes;
}

class GroupIsolation final : public JobIsolation {
 public:
  explicit GroupIsolation(std::unique_ptr<io::CgroupFolder> folder) : folder_(std::move(folder)) {}

  std::string Description() const override {
    return "limits of jobs are enforced by control groups (version " +
           std::to_string(folder_->version()) + ") in " + folder_->place() +
           (folder_->limits_memory() ? "" : "; their memory is counted by the agent");
  }

  Status Begin(const AttemptId& attempt, const JobLimits& limits) override {
    ASSIGN_OR_RETURN(io::Cgroup group,
                     folder_->Make(std::to_string(next_++),
                                   io::CgroupLimits{limits.tasks, limits.memory_bytes}));
    groups_.insert_or_assign(attempt, Group{std::move(group), limits});
    return {};
  }

  std::vector<int> Entrances(const AttemptId& attempt) const override {
    const auto found = groups_.find(attempt);
    return found == groups_.end() ? std::vector<int>() : found->second.group.entrances();
  }

  void Add(const AttemptId& attempt, pid_t worker, bool entered) override {
    const auto found = groups_.find(attempt);
    if (entered || found == groups_.end()) return;
    const Status added = found->second.group.Add(worker);
    // One that has ended meanwhile needs no limit.
    if (!added.ok()) io::LogWarning("agent", added.message());
  }

  void Remove(const AttemptId& /*attempt*/, pid_t /*worker*/) override {}

  // Repeated, because a process that is moved may have started another one meanwhile.
  void Move(const AttemptId& /*from*/, const AttemptId& to, pid_t worker) override {
    std::set<pid_t> moved;
    for (size_t before = SIZE_MAX; moved.size() != before;) {
      before = moved.size();
      for (const io::ProcessRow& row : io::RowsBelow(io::ListProcesses(), {worker})) {
        if (moved.insert(row.process).second) Add(to, row.process, false);
      }
    }
  }

  std::optional<ReachedLimit> Check(const AttemptId& attempt) override {
    const auto found = groups_.find(attempt);
    if (found == groups_.end()) return std::nullopt;
    const auto& [group, limits] = found->second;
    const io::Cgroup::Counts counts = group.counts();
    if (counts.forks_refused > 0) return TooManyTasks(limits);
    if (counts.memory_kills > 0) return TooMuchMemory(limits);
    const bool counted = limits.memory_bytes > 0 && !folder_->limits_memory();
    if (counted && MemoryOf(group.Processes()) > limits.memory_bytes) return TooMuchMemory(limits);
    return std::nullopt;
  }

  std::vector<pid_t> Kill(const AttemptId& attempt) override {
    const auto found = groups_.find(attempt);
    return found == groups_.end() ? std::vector<pid_t>() : found->second.group.Kill();
  }

  bool End(const AttemptId& attempt) override {
    const auto found = groups_.find(attempt);
    if (found == groups_.end()) return true;
    if (!found->second.group.Remove()) return false;
    groups_.erase(found);
    return true;
  }

 private:
  struct Group {
    io::Cgroup group;
    JobLimits limits;
  };

  const std::unique_ptr<io::CgroupFolder> folder_;
  uint64_t next_ = 1;
  std::map<AttemptId, Group> groups_;
};

class CountedIsolation final : public JobIsolation {
 public:
  CountedIsolation(std::string why, std::function<std::vector<pid_t>(const AttemptId&)> orphans)
      : why_(std::move(why)), orphans_(std::move(orphans)) {}

  std::string Description() const override {
    return "limits of jobs are checked by the agent, without control groups, so that a job can "
           "slow "
           "others until it is ended: " +
           why_;
  }

  Status Begin(const AttemptId& attempt, const JobLimits& limits) override {
    attempts_.insert_or_assign(attempt, Counted{limits, {}, 0, 0, {}});
    return {};
  }

  std::vector<int> Entrances(const AttemptId& /*attempt*/) const override { return {}; }

  void Add(const AttemptId& attempt, pid_t worker, bool /*entered*/) override {
    const auto found = attempts_.find(attempt);
    if (found != attempts_.end()) found->second.workers.insert(worker);
  }

  void Remove(const AttemptId& attempt, pid_t worker) override {
    const auto found = attempts_.find(attempt);
    if (found != attempts_.end()) found->second.workers.erase(worker);
  }

  void Move(const AttemptId& from, const AttemptId& to, pid_t worker) override {
    Remove(from, worker);
    Add(to, worker, false);
  }

  std::optional<ReachedLimit> Check(const AttemptId& attempt) override {
    const auto found = attempts_.find(attempt);
    if (found == attempts_.end()) return std::nullopt;
    Counted& counted = found->second;
    const JobLimits& limits = counted.limits;
    if (!MayHaveGrown(counted)) return std::nullopt;
    uint64_t tasks = 0;
    std::vector<pid_t> processes;
    for (const io::ProcessRow& row : Rows(attempt, counted)) {
      tasks += row.threads;
      processes.push_back(row.process);
    }
    counted.listed_at = io::MonotonicNow();
    counted.tasks = tasks;
    counted.machine = io::TasksOfMachine().value_or(0);
    if (limits.tasks > 0 && tasks > limits.tasks) return TooManyTasks(limits);
    if (limits.memory_bytes > 0 && MemoryOf(processes) > limits.memory_bytes) {
      return TooMuchMemory(limits);
    }
    return std::nullopt;
  }

  // Stopped before any is killed: a stopped process starts no others, and each one's parent is
  // still there, by which it is found. A signal takes effect a moment later, until when the process
  // may have started another or have begun a session: what counts is the state that is listed.
  std::vector<pid_t> Kill(const AttemptId& attempt) override {
    const auto found = attempts_.find(attempt);
    if (found == attempts_.end()) return {};
    std::vector<io::ProcessRow> rows;
    int still_passes = 0;
    // A list in which all are still may lack the last child of one that was stopped meanwhile; a
    // further list, begun after that, has it.
    for (int pass = 0; pass < kStopPasses && still_passes < 2; ++pass) {
      rows = Rows(attempt, found->second);
      bool all_still = true;
      for (const io::ProcessRow& row : rows) {
        all_still = all_still && row.still;
        if (!row.still) (void)Signal(row, SIGSTOP);
      }
      still_passes = all_still ? still_passes + 1 : 0;
    }
    std::vector<pid_t> killed;
    for (const io::ProcessRow& row : rows) {
      if (Signal(row, SIGKILL)) killed.push_back(row.process);
    }
    return killed;
  }

  bool End(const AttemptId& attempt) override {
    attempts_.erase(attempt);
    return true;
  }

 private:
  struct Counted {
    JobLimits limits;
    std::set<pid_t> workers;
    uint64_t tasks = 0;    // when they were listed
    uint64_t machine = 0;  // of all processes of the machine, at that time
    Instant listed_at{};
  };

  // Its number may be another process's by now: a job without end uses many.
  static bool Signal(const io::ProcessRow& row, int signal) {
    return ::getsid(row.process) == row.session && kill(row.process, signal) == 0;
  }

  // Whether the job can have passed its limit since its processes were listed: it has not when even
  // all new tasks of the machine would not be enough.
  static bool MayHaveGrown(const Counted& counted) {
    if (counted.machine == 0) return true;
    const Duration period = counted.limits.memory_bytes > 0 ? kMemoryPeriod : kListPeriod;
    if (io::MonotonicNow() - counted.listed_at >= period) return true;
    const uint64_t machine = io::TasksOfMachine().value_or(UINT64_MAX);
    const uint64_t fresh = machine > counted.machine ? machine - counted.machine : 0;
    return counted.tasks + fresh > counted.limits.tasks;
  }

  std::vector<io::ProcessRow> Rows(const AttemptId& attempt, const Counted& counted) const {
    std::set<pid_t> roots = counted.workers;
    for (const pid_t orphan : orphans_(attempt)) roots.insert(orphan);
    return io::RowsBelow(io::ListProcesses(), roots);
  }

  const std::string why_;
  const std::function<std::vector<pid_t>(const AttemptId&)> orphans_;
  std::map<AttemptId, Counted> attempts_;
};

}  // namespace

JobLimits LimitsOf(const proto::Job& job, uint32_t local_workers) {
  JobLimits limits;
  limits.tasks = job.limits().processes();
  if (limits.tasks == 0) limits.tasks = kTasksOfWorker * std::max(1u, local_workers);
  limits.memory_bytes = job.limits().memory_bytes();
  limits.log_bytes = job.limits().log_bytes();
  if (limits.log_bytes == 0) limits.log_bytes = uint64_t{1} << 30;
  return limits;
}

std::unique_ptr<JobIsolation> MakeGroupIsolation(std::unique_ptr<io::CgroupFolder> folder) {
  CHECK(folder != nullptr);
  return std::make_unique<GroupIsolation>(std::move(folder));
}

std::unique_ptr<JobIsolation> MakeCountedIsolation(
    std::string why, std::function<std::vector<pid_t>(const AttemptId&)> orphans) {
  return std::make_unique<CountedIsolation>(std::move(why), std::move(orphans));
}

}  // namespace longhaul::service
