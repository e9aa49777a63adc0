// Decides when to look for slow workers and connections of a job, and when they are certain enough
// to be named.
//
// A look costs little, so there is one soon after the first steps, one when steps have become
// slower since the last look, and else more and more rarely. What two looks in a row find is named:
// workers, or connections if no worker is slow and steps are slower than the fastest ones. Pure
// computation: the caller sends the orders and holds the deadline of a look.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "proto/events.pb.h"
#include "runtime/controller/job/hang/slow_links.h"
#include "runtime/controller/job/hang/slow_workers.h"

namespace longhaul::runtime::controller {

class SlownessWatch {
 public:
  enum class Stage { kWatching, kLooking, kStacks };
  enum class Outcome {
    kNothing,       // nothing is slow, or nothing is known
    kLookAgain,     // something is slow, but only one look has shown it
    kWorkersNamed,  // two looks have shown the same workers
    kLinksNamed,    // or connections
    kEnded,         // what was named is not slow any more
  };

  // An attempt begins with so many workers. Of the earlier one the time of its fastest steps and
  // the usual rates of connections count, if it had as many.
  void BeginAttempt(uint32_t workers);
  // A report of steps: the time of one of them. Returns whether those that were named are not slow
  // any more: steps take about as long as the fastest ones, and were clearly slower then.
  bool TakeStep(Duration step, Instant now);
  // Whether a look is due. Never during one.
  bool IsDue(Instant now) const;
  // How long a look takes: some steps, but at least 2 s and at most 10 minutes.
  Duration Period() const;

  // A look begins at this step; `nodes` are to answer.
  void BeginLook(uint64_t step, std::set<std::string> nodes);
  // Takes the answer of a node. `node_of` are the names of the nodes by address. Returns whether
  // all have answered now.
  bool Take(const std::string& node, const proto::WorkersSampled& answer,
            const std::map<std::string, std::string>& node_of);
  // Ends the look; `step` is the present one. It shows nothing if a node has not answered, or if
  // steps have ceased. Requires Stage::kLooking.
  Outcome Conclude(uint64_t step, Instant now);

  // After kLinksNamed: what is to be said.
  std::string LinksText() const;
  // After kWorkersNamed: the stacks of the slow workers are gathered from these nodes, which are
  // returned.
  std::set<std::string> BeginStacks();
  // Takes the answer of a node. Returns whether all have answered now.
  bool TakeStacks(const std::string& node, const proto::WorkersProbed& answer);
  // Returns what is to be said about the slow workers. Requires Stage::kStacks.
  std::string EndStacks();

  Stage stage() const { return stage_; }
  bool has_named() const { return !named_.empty(); }

 private:
  static constexpr size_t kRecent = 21;  // steps, of which the median counts
  // Workers and connections that are slow, as texts that can be compared.
  using Names = std::set<std::string>;

  bool is_slower() const;
  // Takes what this look has shown; returns its names.
  Names FindSlow();
  // Removes from the findings what was not named.
  void KeepNamed();
  std::string StepText() const;

  std::deque<Duration> recent_;
  std::optional<Duration> step_;
  uint32_t count_ = 0;                // of the workers
  std::optional<Duration> fastest_;   // the least median so far
  std::optional<Duration> expected_;  // the least median since the last look
  std::optional<Instant> next_;       // regular look
  std::optional<Instant> earliest_;   // of any look
  Duration wait_{};                   // before the next regular look
  Duration pause_{};                  // after a look because of slower steps
  bool was_slower_ = false;           // the reason of the present look
  uint32_t again_ = 0;                // looks in a row that found different workers

  Stage stage_ = Stage::kWatching;
  uint64_t first_step_ = 0;
  std::set<std::string> awaited_;
  std::vector<WorkerActivity> workers_;
  LinkRates rates_;
  SlowWorkers found_;                 // by the last look
  std::vector<SlowLink> slow_links_;  // the same
  Names candidates_;                  // of one look
  Names named_;
  Duration named_step_{};  // the median then
  std::string stacks_;
};

}  // namespace longhaul::runtime::controller
