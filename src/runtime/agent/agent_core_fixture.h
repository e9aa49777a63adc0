// Drives an agent's core in tests: short names for commands and inputs, effects sorted by kind.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/agent/agent_core.h"

namespace longhaul::runtime {

inline const JobId kTestJob("job-1");

inline WorkerId WorkerOf(uint64_t attempt, uint32_t rank) { return {kTestJob, attempt, rank}; }

inline proto::Command StartCommand(uint64_t attempt, uint32_t ranks = 2, uint32_t first_rank = 0) {
  proto::Command command;
  proto::StartWorkers& start = *command.mutable_start_workers();
  start.set_job_id(kTestJob.value());
  start.set_attempt(attempt);
  start.set_first_rank(first_rank);
  start.set_local_ranks(ranks);
  start.set_world(4);
  start.mutable_job()->mutable_snapshot()->set_replicated(true);
  return command;
}

inline proto::Command KillCommand(uint64_t attempt, Duration grace = Duration(0)) {
  proto::Command command;
  command.mutable_kill_workers()->set_job_id(kTestJob.value());
  command.mutable_kill_workers()->set_attempt(attempt);
  command.mutable_kill_workers()->set_grace_ns(grace.count());
  return command;
}

class AgentHarness {
 public:
  AgentHarness() : core_(NodeId("node-1"), 7, AgentFacts{2, 2, 1 << 30, "127.0.0.1", "host"}) {}

  std::vector<AgentEffect> Step(const AgentInput& input) {
    std::vector<AgentEffect> effects = core_.Step(input, now_);
    const Status invariants = core_.CheckInvariants();
    EXPECT_TRUE(invariants.ok()) << invariants;
    for (const AgentEffect& effect : effects) {
      if (const auto* send = std::get_if<Send>(&effect)) sent_.push_back(send->message.event());
    }
    return effects;
  }
  std::vector<AgentEffect> Give(const proto::Command& command) {
    return Step(CommandReceived{command});
  }
  // Reports that both workers of an attempt have processes 100, 101, ...
  void Fork(uint64_t attempt, uint32_t ranks = 2, uint32_t first_rank = 0) {
    for (uint32_t i = 0; i < ranks; ++i) {
      Step(WorkerForked{WorkerOf(attempt, first_rank + i), 100 + i, "", false});
    }
  }
  void Start(uint64_t attempt, uint32_t ranks = 2, uint32_t first_rank = 0) {
    Give(StartCommand(attempt, ranks, first_rank));
    Fork(attempt, ranks, first_rank);
  }
  std::vector<AgentEffect> End(uint64_t attempt, uint32_t rank, int signal = 9) {
    return Step(WorkerGone{WorkerOf(attempt, rank), -1, signal, "", 0});
  }
  void Seal(uint64_t attempt, uint64_t step, uint32_t ranks = 2) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      last_effects_ = Step(WorkerSealed{WorkerOf(attempt, rank), step, Duration(5), 10, now_});
    }
  }

  void Advance(Duration by) { now_ += by; }
  // Returns what was sent since the last call.
  std::vector<proto::Event> TakeSent() { return std::exchange(sent_, {}); }

  AgentCore& core() { return core_; }
  Instant now() const { return now_; }
  const std::vector<AgentEffect>& last_effects() const { return last_effects_; }

 private:
  AgentCore core_;
  Instant now_ = InstantFromNanoseconds(1'000'000'000);
  std::vector<proto::Event> sent_;
  std::vector<AgentEffect> last_effects_;
};

// The effects of one kind, in order.
template <typename Kind>
std::vector<Kind> Only(const std::vector<AgentEffect>& effects) {
  std::vector<Kind> found;
  for (const AgentEffect& effect : effects) {
    if (const auto* kind = std::get_if<Kind>(&effect)) found.push_back(*kind);
  }
  return found;
}

// Returns the kinds of the events as "kind kind kind", to compare orders.
inline std::string Kinds(const std::vector<proto::Event>& events) {
  std::string kinds;
  for (const proto::Event& event : events) {
    const auto* field = proto::Event::descriptor()->FindFieldByNumber(event.kind_case());
    kinds += (kinds.empty() ? "" : " ") + (field == nullptr ? "none" : field->name());
  }
  return kinds;
}

// An agent whose first events the controller has.
inline AgentHarness Connect(AgentHarness agent = {}) {
  agent.Step(Connected{0});
  agent.TakeSent();
  return agent;
}

}  // namespace longhaul::runtime
