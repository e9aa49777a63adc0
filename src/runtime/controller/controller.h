// The controller's state machine: tracks nodes and jobs, decides where jobs run, and handles
// faults.
//
// A pure state machine: an event and the time go in; commands for agents and notifications for
// users come out. It reads no clock, opens nothing and draws no random numbers, so its state is a
// function of the sequence of (now, event). The service logs this sequence before it sends any
// command, a restarted controller replays it, and the simulator drives this same class in virtual
// time. src/runtime/README.md has the state diagram of a job and the invariants.
//
// scheduler::Scheduler (scheduling/cluster_scheduler.h), which is part of this state, assigns all
// places. Leaves out how node checks are run (node_check/node_check.h).
#pragma once

#include <cstdint>
#include <map>
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
#include "runtime/goodput/usage_ledger.h"
#include "scheduler/scheduler.h"
#include "spec/cluster/topology.h"

namespace longhaul::runtime {

namespace scheduling {
class ClusterScheduler;
}

struct ControllerOptions {
  // How long an agent whose stream broke may take to reconnect before its node counts as lost.
  Duration agent_grace = std::chrono::seconds(1);
  // The same after a start of the controller, at most (handlers/absent_nodes.h).
  Duration rejoin_grace = std::chrono::seconds(15);
  // A hang is suspected after the longer of the floor and hang_factor times the slowest recent step
  // without a step. The workers are probed; after the same time again, the attempt is restarted.
  Duration hang_floor = std::chrono::seconds(10);
  double hang_factor = 3.0;
  // The steps of a command don't show evaluations and checkpoints between them. So its workers are
  // probed later (HangSettings::no_step), and while one of them is active they are restarted only
  // after the time in which PyTorch gives up a collective (Gloo and NCCL: at most 30 minutes by
  // default).
  Duration command_hang_limit = std::chrono::minutes(30);
  // How long a worker may wait for a slot for a snapshot, while it reports so, before this counts
  // as a hang. A slow disk is not a hang; one that never finishes is.
  Duration slot_wait_limit = std::chrono::minutes(10);
  // From the workers' start to their first step, for jobs that report steps.
  Duration start_limit = std::chrono::minutes(10);
  // A job that fails this often in a row without a new step in between is not restarted again.
  uint32_t fruitless_restarts = 5;
  // How long a check of a gang's nodes after repeated hangs may take; zero: there is none.
  Duration node_check_limit = std::chrono::minutes(3);
  Duration stop_grace = std::chrono::seconds(10);
  // Prior of the failure rate (a gamma distribution worth one failure in this time), for the
  // snapshot interval of a job that has seen none.
  Duration expected_time_between_failures = std::chrono::hours(1);
};

// A check of nodes whose job has no workers at present (node_check/node_check.h).
struct NodeCheckOrder {
  std::string job;
  uint32_t fault = 0;    // the number of the job's fault that it is for; 0: of none
  uint64_t attempt = 0;  // with fault 0: it is before the start of this attempt
  std::vector<NodeId> nodes;
};

// The result of one event.
struct Actions {
  std::vector<std::pair<NodeId, proto::Command>> commands;  // in order
  std::vector<proto::Notification> notifications;
  // The service answers each with an event (proto::NodesChecked).
  std::vector<NodeCheckOrder> checks;
  // Planned fault: the service ends itself by SIGKILL once all is logged.
  bool kill_controller = false;
};

class Controller {
 public:
  explicit Controller(const ControllerOptions& options);
  ~Controller();
  Controller(Controller&&) noexcept;
  Controller& operator=(Controller&&) noexcept;

  // Takes one event. `now` never goes back (an earlier one counts as the last). Events come from
  // outside, so one that an agent repeats, or that is not valid (an unknown job, a rank out of
  // range, an old attempt), changes nothing.
  Actions Step(const proto::Event& event, Instant now);

  // Returns when to step a Tick if no other event comes first. Constant until the next Step.
  std::optional<Instant> NextDeadline() const;

  // Returns whether a job may be submitted, or the reason why not (no such size, a live job's
  // name).
  Status CheckSubmission(const proto::Job& job) const;
  // The same for jobs of which all or none are accepted; each depends only on earlier ones.
  Status CheckSubmission(const proto::JobsSubmitted& submitted) const;

  // Returns whether the changes can be made, or the first reason why not.
  Status CheckChanges(const proto::ChangesAsked& asked) const;

  // The highest sequence taken from this life of an agent; 0 when it is unknown.
  uint64_t AcknowledgedSequence(const NodeId& node, uint64_t incarnation) const;

  // Of a job, or of an array as a whole.
  std::optional<proto::JobStatus> JobStatus(const JobId& id, Instant now) const;
  std::vector<proto::JobStatus> AllJobs(Instant now) const;  // by submission, no array as a whole
  // By submission, an array as one.
  std::vector<proto::JobStatus> Listing(Instant now) const;
  std::vector<proto::JobStatus> Elements(const JobId& array, Instant now) const;
  // The id of the job or array with this id, or of the only one with this name. kNotFound names
  // the nearest one.
  Result<JobId> Resolve(const std::string& id_or_name) const;
  std::vector<proto::NodeStatus> AllNodes() const;  // by name
  // The nodes of the cluster file that are not connected, each with its number of devices.
  std::map<std::string, uint32_t> AbsentNodes() const;
  // Where the cluster file declares the nodes; nothing without a cluster file.
  const std::optional<spec::ClusterDeclaration>& Declaration() const;
  // What a node check needs of a node.
  struct CheckTarget {
    std::string node;
    std::string address;
    uint32_t peer_port = 0;
    std::string leaf;  // the lowest domain of the network that the cluster file declares, or empty
    bool connected = false;
    bool accepts_work = false;  // neither cordoned nor draining
    bool idle = false;          // no job has workers there or is placed there
    std::string job;            // the only one that is placed there; empty: none, or several
  };
  std::vector<CheckTarget> CheckTargets() const;  // by name

  // Checks all invariants and returns the first violation. Cheap enough to call after every step,
  // in production too.
  Status CheckInvariants() const;

  // Checks all jobs at once, and that the scheduler's state is what runs. Its time grows with the
  // number of jobs and nodes; for tests and the simulator.
  Status CheckPlaces() const;

  // Returns whether a configuration can be used (ControllerStarted); kInvalidArgument with the
  // reason if not.
  static Status CheckConfiguration(const proto::SchedulingConfiguration& configuration);
  // What a fix that the scheduler proposes means here, in order: changes to be made together, and
  // nodes whose agents must be started.
  struct Remedy {
    std::vector<proto::Change> changes;
    std::vector<std::string> missing;
  };
  Remedy RemedyOf(const JobId& job, const std::vector<scheduler::Event>& fix) const;
  std::vector<scheduler::LinkView> Links() const;  // those that are degraded
  std::vector<proto::QueueStatus> Queues() const;  // the root first; none before a node has joined
  std::vector<proto::NodeReservation> Reservations() const;  // present and future ones, by name
  // What explains why a job waits: a copy of the scheduler to query, or why the scheduler hasn't
  // the job.
  struct Question {
    std::optional<scheduler::Scheduler> scheduler;
    std::string aside;
    scheduler::Changeable means;  // what can be changed about the job
    // Why the job is not offered to the scheduler yet; empty: it is. Then its id or its array's,
    // and whether it waits for other jobs.
    std::string held;
    std::string unit;
    bool depends = false;
    std::string reserved;  // which reservations keep nodes from the job, for people; empty: none
  };
  Question AskWhy(const JobId& job) const;

  // A copy of the scheduler with its nodes and jobs, for what-if questions (scheduling/what_if.h).
  std::unique_ptr<scheduling::ClusterScheduler> CopyScheduler() const;

  // Who held how many accelerators for how long, up to `now`.
  UsageReport Usage(const UsageQuery& query, Instant now) const;
  // The accelerator time of all jobs by the accounting and by the goodput ledgers' time outside the
  // queue, which must agree (CheckPlaces).
  // In thousandths of a nanosecond of one accelerator.
  struct UsageTotals {
    AcceleratorTime held = 0;
    AcceleratorTime ledgers = 0;
    UsageLedger::Difference difference;  // held = ledgers + leaving - without_nodes
  };
  UsageTotals CompareUsage(Instant now) const;

  // Equal states have equal hashes. Compares a run with its replay.
  uint64_t StateHash() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

// The id of an array's element: "sweep-1_3".
std::string ElementIdOf(const std::string& array, uint32_t index);

bool IsTerminal(proto::JobState state);  // succeeded, failed, stopped

}  // namespace longhaul::runtime
