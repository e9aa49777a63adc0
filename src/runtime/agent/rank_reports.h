// Merges the reports of a node's ranks about an attempt into one, once all ranks have reported.
//
// The steps, seals and phases of a rank only rise; a report that doesn't is ignored. Ranks may be
// at most kMaxStepsApart steps apart: beyond it the oldest unfinished reports are dropped, and the
// next complete report covers their steps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/agent/agent_messages.h"

namespace longhaul::runtime {

constexpr size_t kMaxStepsApart = 4096;

class RankReports {
 public:
  // Ranks [first_rank, first_rank + ranks) of the attempt. Requires ranks >= 1.
  RankReports(JobId job, uint64_t attempt, uint32_t first_rank, uint32_t ranks);

  // Each returns the node's event when the report was the last missing one; its at_ns is that of
  // the last rank. Requires a rank of this node.
  std::optional<proto::Event> Phase(const WorkerPhase& report);
  std::optional<proto::Event> Step(const WorkerStep& report);
  std::optional<proto::Event> Sealed(const WorkerSealed& report);
  // Where a rank's state was restored from; part of the event of the stepping phase.
  void Restored(const WorkerRestored& report);

  // Whether a rank has reported a step.
  bool has_steps() const;
  // The last step that one rank has reported. Requires a rank of this node.
  uint64_t last_step(uint32_t rank) const { return rank_of(rank).last_step; }
  proto::PhaseEntered::Phase phase(uint32_t rank) const { return rank_of(rank).phase; }

 private:
  static constexpr size_t kPhases = proto::PhaseEntered::Phase_ARRAYSIZE;
  struct Rank {
    proto::PhaseEntered::Phase phase = proto::PhaseEntered::PHASE_UNSPECIFIED;
    std::array<int64_t, kPhases> entered_at_ns{};  // that phase or a later one
    uint64_t last_step = 0;
    int64_t stepped_at_ns = 0;  // when it did; 0: not yet
    uint64_t last_sealed = 0;
  };
  struct PendingStep {
    uint32_t ranks = 0;
    int64_t at_ns = 0;
    int64_t data_ns = 0;  // sums over ranks
    int64_t snapshot_ns = 0;
    int64_t evaluation_ns = 0;
    int64_t communication_ns = 0;
    int64_t longest_ns = 0;  // of one rank: data, snapshot and evaluation
    uint64_t tokens = 0;     // of the rank that reported the loss
    double flops = 0;
    std::optional<uint32_t> loss_rank;  // the lowest rank with a loss
    double loss = 0;
    double gradient_norm = 0;
    std::optional<double> validation_loss;
    std::set<uint32_t> not_finite;  // the ranks whose loss is not
    std::vector<int64_t> work_ns;   // of each rank; 0: unknown
  };
  struct PendingSeal {
    uint32_t ranks = 0;
    int64_t at_ns = 0;
    int64_t blocked_ns = 0;
    int64_t waited_ns = 0;
    // Of the rank that was blocked longest.
    proto::SnapshotWay way = proto::SNAPSHOT_WAY_UNSPECIFIED;
    uint64_t bytes = 0;
    bool non_finite = false;
    std::map<uint32_t, proto::RankContent> contents;  // by rank
  };

  const Rank& rank_of(uint32_t rank) const { return ranks_.at(rank - first_rank_); }
  Rank& rank_of(uint32_t rank) { return ranks_.at(rank - first_rank_); }
  void AddTo(PendingStep& pending, const WorkerStep& report);
  // Notes the time in which the rank worked, without waits. Requires that its last step is still
  // that before the report.
  void AddWork(PendingStep& pending, const WorkerStep& report);
  void AddRankWork(std::map<uint64_t, PendingStep>::const_iterator end,
                   proto::StepReported& merged) const;
  proto::Event MergeThrough(uint64_t step);

  JobId job_;
  uint64_t attempt_;
  uint32_t first_rank_;
  std::vector<Rank> ranks_;
  std::map<uint64_t, PendingStep> steps_;
  std::map<uint64_t, PendingSeal> seals_;
  std::optional<uint64_t> reported_step_;  // the last reported step, or the restored one
  proto::PhaseEntered::Phase reported_phase_ = proto::PhaseEntered::PHASE_UNSPECIFIED;
  proto::Restore::Tier restored_tier_ = proto::Restore::TIER_NONE;
  uint64_t restored_step_ = 0;
};

}  // namespace longhaul::runtime
