// The state machine of the controller: which nodes exist, which jobs run where, what a fault means
// and what is done about it.
//
// A pure state machine. Facts go in as events, one at a time, with the time; commands for agents
// and notifications for people come out. It reads no clock, opens nothing and draws no random
// numbers, so its state is a function of the sequence of (now, event): the service logs that
// sequence before it lets any command leave, a restarted controller replays it, and the simulator
// drives this same class in virtual time. src/runtime/README.md has the state diagram of a job and
// the invariants.
//
// Every place is given by scheduler::Scheduler (scheduling/cluster_scheduler.h), which is part of
// this state. Leaves out node checks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "proto/commands.pb.h"
#include "proto/events.pb.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"
#include "scheduler/scheduler.h"

namespace longhaul::runtime {

struct ControllerOptions {
  // A broken stream may be the network: so long may an agent take to come back before it is lost.
  Duration agent_grace = std::chrono::seconds(1);
  // The same after the controller itself (re)started.
  Duration rejoin_grace = std::chrono::seconds(15);
  // No step for the longer of the floor and hang_factor times the slowest recent step: a hang is
  // suspected and the workers are probed; as long again, and the attempt is restarted.
  Duration hang_floor = std::chrono::seconds(10);
  double hang_factor = 3.0;
  // Steps that are read from a worker's output say nothing of evaluations and checkpoints between
  // them: the workers are probed later, and restarted only after the time in which PyTorch gives up
  // a collective (Gloo and NCCL: at most 30 minutes by default).
  Duration output_hang_floor = std::chrono::seconds(60);
  Duration output_hang_limit = std::chrono::minutes(30);
  // So long may a worker wait for a slot to take a snapshot, while it says so, before that is a
  // hang too: a slow disk is none, one that never ends is.
  Duration slot_wait_limit = std::chrono::minutes(10);
  // From the workers' start to their first step, for jobs that report steps.
  Duration start_limit = std::chrono::minutes(10);
  // A job that fails again and again without a new step in between stops after so many tries.
  uint32_t fruitless_restarts = 5;
  Duration stop_grace = std::chrono::seconds(10);
  // Prior of the failure rate (a gamma distribution worth one failure in this time), for the
  // snapshot interval of a job that has seen none.
  Duration expected_time_between_failures = std::chrono::hours(1);
};

// What one event led to.
struct Actions {
  std::vector<std::pair<NodeId, proto::Command>> commands;  // in order
  std::vector<proto::Notification> notifications;
  bool kill_controller = false;  // chaos: the service ends itself by SIGKILL once all is logged
};

class Controller {
 public:
  explicit Controller(const ControllerOptions& options);
  ~Controller();
  Controller(Controller&&) noexcept;
  Controller& operator=(Controller&&) noexcept;

  // Takes one fact. `now` never goes back (an earlier one counts as the last). An event of an agent
  // with a sequence number already seen changes nothing. An event that makes no sense (an unknown
  // job, a rank out of range, an old attempt) changes nothing either: it comes from outside.
  Actions Step(const proto::Event& event, Instant now);

  // When to step a Tick unless something else comes first. The same answer until the next Step.
  std::optional<Instant> NextDeadline() const;

  // Whether a job may be submitted; the reason if not (no such size, a name in use by a live job).
  Status CheckSubmission(const proto::Job& job) const;

  // Whether what is asked for can be done; the first reason if not.
  Status CheckChanges(const proto::ChangesAsked& asked) const;

  // The highest sequence taken from this life of an agent; 0 when it is unknown.
  uint64_t AcknowledgedSequence(const NodeId& node, uint64_t incarnation) const;

  std::optional<proto::JobStatus> JobStatus(const JobId& id, Instant now) const;
  std::vector<proto::JobStatus> AllJobs(Instant now) const;  // by submission
  std::vector<proto::NodeStatus> AllNodes() const;           // by name

  // Everything that must hold between two steps; the first thing that doesn't. Cheap enough to be
  // called after every step, in production too.
  Status CheckInvariants() const;

  // The same of every job at once, and of the scheduler: that its state is what runs. As long as
  // all of it; for tests and the simulator.
  Status CheckPlaces() const;

  // Whether a configuration can be used (ControllerStarted): kInvalidArgument says why not.
  static Status CheckConfiguration(const proto::SchedulingConfiguration& configuration);
  // What a stated fix means here, in order: changes to be asked for together, and nodes whose
  // agents have to be started.
  struct Remedy {
    std::vector<proto::Change> changes;
    std::vector<std::string> missing;
  };
  Remedy RemedyOf(const JobId& job, const std::vector<scheduler::Event>& fix) const;
  std::vector<scheduler::LinkView> Links() const;  // those less than good
  std::vector<proto::QueueStatus> Queues() const;  // the root first; none before a node has joined
  // Why a job waits: a copy of the scheduler, to be asked elsewhere, or why it isn't with it.
  struct Question {
    std::optional<scheduler::Scheduler> scheduler;
    std::string aside;
    scheduler::Changeable means;  // what can be changed of it
  };
  Question AskWhy(const JobId& job) const;

  // Equal states have equal hashes: to compare a run with its replay.
  uint64_t StateHash() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

bool IsTerminal(proto::JobState state);  // succeeded, failed, stopped

}  // namespace longhaul::runtime
