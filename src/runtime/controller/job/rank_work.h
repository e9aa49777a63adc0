// How long each rank of a job works in a step, averaged over the steps between two entries of the
// log.
//
// Ranks of a synchronous job end a step together, so the time of a step does not show which of them
// is slow. The time that a rank works does: quick ranks wait for the others. Nodes report it where
// their ranks report how long they communicated, which includes that wait. A job of many ranks is
// shown in groups of consecutive ranks, by the slowest of each. Leaves out whether a rank is slow
// enough to be named (hang/slow_workers.h). Deterministic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/events.pb.h"
#include "proto/status.pb.h"

namespace longhaul::runtime::controller {

class RankWork {
 public:
  static constexpr uint32_t kMostGroups = 128;  // rows of a chart

  // An attempt begins with so many nodes, each with `local` ranks. Requires both >= 1.
  void BeginAttempt(uint32_t nodes, uint32_t local);
  // Takes the report of the node at `place`. One that is not of its ranks is left out.
  void Take(size_t place, const proto::StepReported& report);

  // Whether a rank has reported since the last entry.
  bool has_news() const { return has_news_; }
  // Returns the entry, and begins the next one.
  proto::RankWork TakeEntry();

 private:
  struct Sum {
    uint64_t work_us = 0;
    uint64_t reports = 0;
  };

  uint32_t local_ = 1;
  uint32_t ranks_per_group_ = 1;
  bool has_news_ = false;
  std::vector<Sum> ranks_;
};

}  // namespace longhaul::runtime::controller
