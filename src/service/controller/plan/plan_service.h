// Plans for clients of the REST API: runs `longhaul plan` in a process of its own.
//
// A search may take a minute of processor time and hundreds of MiB, so it stays out of the
// controller: its process has one thread, a time limit, and can be cancelled. One search at a time,
// on its own thread; a few may wait. The newest results are kept in memory. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/status.h"
#include "base/time.h"
#include "io/process/command.h"
#include "service/controller/plan/plan_request.h"

namespace longhaul::service {

enum class PlanState { kWaiting, kSearching, kDone, kFailed, kCancelled };

std::string_view NameOf(PlanState state);  // "waiting" and so on

struct PlanStatus {
  uint64_t plan = 0;  // its number
  PlanState state = PlanState::kWaiting;
  Duration searched{};
  Duration limit{};
  std::string error;   // with kFailed
  std::string result;  // with kDone: the JSON object of `longhaul plan --json`
};

// Returns longhaul-tools beside this program; empty: it is not there.
std::string FindPlanner();

class PlanService {
 public:
  // `planner`: the program longhaul-tools.
  explicit PlanService(std::string planner);
  ~PlanService();  // ends a search under way
  PlanService(const PlanService&) = delete;
  PlanService& operator=(const PlanService&) = delete;

  bool has_planner() const { return !planner_.empty(); }
  // Returns the status of the new plan; kUnavailable where there is no planner, and
  // kResourceExhausted when too many wait.
  Result<PlanStatus> Start(PlanRequest request);
  // Returns kNotFound for one that never was, and for one that is too old.
  Result<PlanStatus> Get(uint64_t plan) const;
  // Returns its status afterwards. No change for a plan that has ended.
  Result<PlanStatus> Cancel(uint64_t plan);

 private:
  struct Entry {
    uint64_t number = 0;
    PlanRequest request;
    PlanState state = PlanState::kWaiting;
    Instant started{};  // monotonic, as `ended`
    Instant ended{};
    std::string error;
    std::string result;
    bool over() const { return state != PlanState::kWaiting && state != PlanState::kSearching; }
  };

  void Serve();
  // Runs the search without the lock. Returns how it ended, for the entry.
  Result<std::string> Search(const PlanRequest& request);
  // Null: there is none.
  template <typename Entries>
  static auto Find(Entries& entries, uint64_t plan) -> decltype(&entries.front());
  static PlanStatus StatusOf(const Entry& entry);
  void ForgetOld();

  const std::string planner_;
  io::CommandProcesses processes_;
  io::CommandDeadline deadline_;  // of the search under way

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool stopping_ = false;
  uint64_t last_ = 0;
  std::deque<Entry> entries_;  // by number
  std::thread thread_;
};

}  // namespace longhaul::service
