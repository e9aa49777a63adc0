// The jobs that wait, each with the scheduler's reason, for all viewers together.
//
// An explanation tries changes on a copy of the scheduler, which may take long on a large cluster.
// So the list is made at most every kPeriod, and explanations stop after kBudget: the jobs that
// were explained longest ago come first, so each has its turn. A job without an explanation has its
// state's reason. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/time.h"
#include "scheduler/explanation.h"
#include "service/controller/core_loop.h"
#include "service/controller/view/cluster_view.h"

namespace longhaul::service {

class WaitingList {
 public:
  static constexpr size_t kMostJobs = 100;
  static constexpr Duration kPeriod = std::chrono::seconds(5);
  static constexpr Duration kBudget = std::chrono::milliseconds(200);

  // Requires that `loop` outlives this.
  explicit WaitingList(CoreLoop& loop) : loop_(loop) {}

  struct Snapshot {
    std::vector<WaitingJob> jobs;  // the longest waiting ones, at most kMostJobs
    uint64_t total = 0;
  };
  Snapshot Get();

 private:
  struct Explained {
    scheduler::Explanation why;
    Instant at{};  // monotonic
  };
  // These require mutex_.
  void Refresh(Instant started);
  void Explain(Instant started);
  void Explain(const std::string& id, const runtime::Controller::Question& question);

  CoreLoop& loop_;
  std::mutex mutex_;  // guards all below
  Snapshot list_;
  std::map<std::string, Explained> explained_;  // of the jobs in the list
  Instant refreshed_{};                         // monotonic
  bool made_ = false;
};

}  // namespace longhaul::service
