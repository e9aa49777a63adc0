// What running tasks hold on hosts, in the units of one task that looks for room there.
//
// A task of whole GPUs counts GPUs, one of a fraction the thousandths of each GPU, one without
// devices cpu, else memory. Other needs (a gang's rules, cpu beside GPUs) are the proof's: the
// count may say that more fits than does, never less.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/internal/slot_tables.h"
#include "scheduler/job.h"
#include "scheduler/victims/victim_search.h"

namespace longhaul::scheduler::internal {

// A task on a host and the piece (victims/victim_search.h) that it is part of.
struct PieceTask {
  TaskSlot slot = kNoTask;
  int32_t piece = 0;
};

class VictimUnits {
 public:
  // For `tasks` tasks of a group. `state` outlives this.
  VictimUnits(const State& state, const GroupRequest& group, ShapeId shape, int32_t tasks,
              Admit admit);

  // An empty domain that needs all of them.
  VictimDomain Start(int32_t id) const;
  // Adds what these tasks hold on a host, and takes what is free there off the domain's need. With
  // all of them gone the host takes `most` tasks.
  void AddHost(NodeIndex node, std::span<const PieceTask> held, int32_t most, VictimDomain& domain);
  // The domain is complete: where every unit is a slot, it says so.
  void Finish(VictimDomain& domain) const;

  // Nothing but the counted amount matters for one task.
  bool complete() const { return complete_; }

 private:
  enum class Measure : uint8_t { kGpus, kShare, kCpu, kMemory };
  struct Unit {
    std::vector<int32_t> holders;
    int64_t weight = 0;
    friend auto operator<=>(const Unit&, const Unit&) = default;
  };

  void CollectGpus(const NodeState& node, std::span<const PieceTask> held);
  void CollectShares(std::span<const PieceTask> held, uint32_t gpu);
  // units_ has one unit for each set of holders.
  void Merge();
  // One host, or one GPU of it, with `free` idle and units_ that could be.
  void Add(int64_t free, int32_t cap, VictimDomain& domain);
  void AddUnit(const Unit& unit, int64_t weight, VictimDomain& domain) const;

  const State& state_;
  ShapeId shape_;
  Admit admit_;
  Measure measure_ = Measure::kGpus;
  bool complete_ = true;
  int64_t each_ = 1;
  int32_t need_ = 0;
  int32_t per_slot_ = 1;  // tasks
  int32_t cap_ = 0;       // slots a host
  std::vector<Unit> units_;
};

}  // namespace longhaul::scheduler::internal
