// A hang of a command that is suspected: long before its workers are restarted, the worker that
// stands still is named.
//
// A step that is late proves little, because an evaluation or a checkpoint may take its time. So
// the workers are probed twice, and a hang is named only if none of them was active in between, by
// the rules for activity (docs/hangs.md). Pure: the caller holds the deadline and sends the probes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/time.h"
#include "proto/events.pb.h"
#include "runtime/controller/job/hang/stack_inquiry.h"

namespace longhaul::runtime::controller {

class SuspectedHang {
 public:
  enum class Stage { kWatching, kProbed, kStacks, kNamed };

  // The time without a step before the first probe. With both probes a hang is named 3 s later.
  static Duration Patience(Duration slowest_report);
  // The time between the two probes, and for the stacks.
  static constexpr Duration kBetween = std::chrono::seconds(2);
  static constexpr Duration kStacksLimit = std::chrono::seconds(5);
  // The time after the end of a worker before the first probe of those that have not ended.
  static constexpr Duration kEndPatience = std::chrono::seconds(30);

  // A step was reported, or an attempt has begun.
  void Cancel();
  void BeginProbe(uint64_t attempt);
  // The second probe, with stacks; `nodes` are to answer.
  void BeginStacks(Evidence hang, std::set<std::string> nodes);
  // Takes the answer of a node to the second probe. Returns whether all have answered now.
  bool Take(const std::string& node, const proto::WorkersProbed& answer);
  // Returns the hang, with the worker that differs from the others; nothing if a worker was active,
  // or a node has not answered. Then the workers are watched again. Requires Stage::kStacks.
  std::optional<Evidence> Conclude();

  // A worker has exited with 0.
  void NoteEnd(uint64_t attempt, uint32_t rank, Instant at);
  // Those that have not ended were named: this happens once in an attempt.
  void NoteEndNamed(uint64_t attempt) { end_named_in_ = attempt; }
  bool end_named_in(uint64_t attempt) const { return end_named_in_ == attempt; }
  // Names the workers that answered the second probe, and the last one that has ended.
  std::string DescribeEnd(Instant now) const;
  bool has_workers() const { return !workers_.empty(); }

  Stage stage() const { return stage_; }
  uint64_t attempt() const { return attempt_; }

 private:
  Stage stage_ = Stage::kWatching;
  uint64_t attempt_ = 0;
  bool all_answered_ = false;
  bool all_idle_ = true;
  StackInquiry inquiry_;
  std::map<uint32_t, std::string> workers_;  // in the second probe: the node of each rank
  // Kept by Cancel():
  uint64_t end_named_in_ = 0;  // attempt
  uint32_t ended_rank_ = 0;    // the last one that exited with 0
  Instant ended_at_{};
};

}  // namespace longhaul::runtime::controller
