// Processes that measure at the same time: one per core, all the same operator, because a core that
// works alone has caches and memory for itself, unlike in a training.
//
// Forked once; they get their orders over pipes. Requires that this process has one thread.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "base/units.h"
#include "io/fd.h"
#include "planner/local/device_file.h"

namespace longhaul::trainer {

class WorkerPool {
 public:
  // Storage is measured in `directory`.
  static Result<std::unique_ptr<WorkerPool>> Start(uint32_t processes,
                                                   const std::string& directory);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();  // ends them

  // The mean of the processes' measurements; the largest of their spreads.
  Result<planner::Figure> Measure(const planner::Figure& what, Duration budget);

 private:
  struct Member {
    pid_t pid = 0;
    io::Fd to;
    io::Fd from;
  };
  WorkerPool() = default;

  std::vector<Member> members_;
};

// Sums over `ranks` processes of this machine, joined as the trainer's are, by the clock of rank 0.
// `all` holds sizes of kAllReduce with the same ranks. kUnavailable when the ranks do not find each
// other.
Result<std::vector<planner::Figure>> MeasureAllReduce(const std::vector<planner::Figure>& all,
                                                      Duration budget_each);

// Resident memory of a worker that has joined a group of two and done a first step of a tiny model,
// without that model: the memory of each worker before its own model. The peak value.
Result<Bytes> MeasureProcessMemory();

}  // namespace longhaul::trainer
