// The scheduler as the controller uses it: nodes that join, jobs as clients submit them.
//
// scheduler::Scheduler decides over a declared topology. Here nodes appear by joining, so this
// keeps what is known of each and makes the topology from it, in natural order of the names (or as
// the configuration's cluster file has it); when that changes, Scheduler::Rebuild takes all jobs
// along. A worker slot is an accelerator. A node with more than 16 slots has accelerators of
// several slots each
// (`slots_per_accelerator`, one number for the cluster), and an exact count of slots beside them,
// so it is never given more workers than it takes.
//
// A function of the calls, as all that the controller knows. Jobs that the present nodes could
// never hold are kept aside and offered again when the cluster changes, unless the cluster is
// declared.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "proto/events.pb.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"
#include "scheduler/scheduler.h"
#include "spec/cluster/topology.h"
#include "spec/queue/controller_file.h"

namespace longhaul::runtime::scheduling {

struct NodeFacts {
  uint32_t slots = 0;
  uint64_t cores = 0;
  uint64_t memory_bytes = 0;

  friend bool operator==(const NodeFacts&, const NodeFacts&) = default;
};

// -1: no bound.
proto::Amounts AmountsOf(const spec::SharedAmounts& amounts);

// A scheduler's decision in the controller's words.
struct Verdict {
  scheduler::DecisionKind kind = scheduler::DecisionKind::kStart;
  JobId job;
  uint64_t transaction = 0;
  std::string reason;
};

// What is known of a node's reliability.
struct NodeHealth {
  uint16_t thousandths = 1'000;
  std::string last_fault;  // what counted against it last
  Instant last_fault_at{};
};

class ClusterScheduler {
 public:
  ClusterScheduler();
  ~ClusterScheduler();
  ClusterScheduler(ClusterScheduler&&) noexcept;
  ClusterScheduler& operator=(ClusterScheduler&&) noexcept;

  // Whether a configuration can be used at all: kInvalidArgument names file, line and remedy.
  static Status Check(const proto::SchedulingConfiguration& configuration);
  // From now on it is in force. One that Check refuses changes nothing.
  Status Configure(const proto::SchedulingConfiguration& configuration, Instant now);
  const spec::ControllerSpec& configuration() const { return configuration_; }

  // A node as it is now. `condition` is what the controller wants of it.
  void SetNode(const std::string& name, const NodeFacts& facts, spec::NodeCondition condition,
               Instant now);
  // What the configuration says that a node is while nothing is wrong with it: ready, or spare.
  spec::NodeCondition StandardCondition(const std::string& name) const;
  spec::NodeCondition ConditionOf(const std::string& name) const;

  // kFailedPrecondition: it could never run here (with the largest size that could);
  // kInvalidArgument: it names what doesn't exist.
  Status CheckSubmission(const proto::Job& job) const;

  void Submit(const proto::Job& job, Instant now);
  void End(const JobId& job, Instant now);
  void Stopped(const JobId& job, Instant now);
  void Snapshot(const JobId& job, Instant now);
  void Confirm(const JobId& job, uint64_t transaction, bool running, Instant now);

  // --- What operators change. Check... says why not; the others require that it said ok.
  void Expedite(const JobId& job, Instant now);
  void Evict(const JobId& job, Instant now);
  void Change(const proto::Job& job, Instant now);  // one that waits; its place is kept
  Status CheckLimit(const std::string& queue, const proto::Amounts& limit) const;
  // Until the configuration changes.
  void SetLimit(const std::string& queue, const proto::Amounts& limit, Instant now);
  void Trust(const std::string& node);  // a suspect is ready when it is next told so
  // Makes a job what the scheduler's request says of its size and topology.
  void ApplyTo(const scheduler::JobRequest& request, proto::Job& job) const;
  std::vector<scheduler::LinkView> Links() const;
  Status CheckLink(const std::string& level, const std::string& name) const;
  void TrustLink(const std::string& level, const std::string& name, Instant now);

  // --- What is learnt of nodes and links (scheduling/health.cc).
  // Something failed for the node's own fault: a third of its health is lost, and with half of it
  // gone it is on probation.
  void Fault(const std::string& node, const std::string& what, Instant now);
  // It could not be reached for a moment. Three times an hour is a fault of the node; many nodes of
  // one declared leaf at once, and few others, are a fault of the leaf's links instead.
  void Cut(const std::string& node, Instant now);
  NodeHealth HealthOf(const std::string& node) const;

  // Something was told since the last round, or a deadline of the scheduler has passed.
  bool Due(Instant now) const;
  std::vector<Verdict> Decide(Instant now);
  std::optional<Instant> NextDeadline() const;

  // The nodes given to a job, by rank; empty names where it has lost one. Nothing: it waits.
  std::vector<std::string> NodesOf(const JobId& job) const;
  bool Waits(const JobId& job) const;
  // Why a job waits, in a few words.
  std::string WaitText(const JobId& job) const;

  // What it takes to explain a job at leisure, on another thread: a copy. Nothing for jobs kept
  // aside (`aside` says why) and before a node has joined.
  std::optional<scheduler::Scheduler> Copy() const;
  std::string AsideText(const JobId& job) const;
  std::vector<proto::QueueStatus> Queues() const;

  // The class's own, and that the last round has kept all guarantees.
  Status CheckInvariants() const;
  uint64_t Fingerprint() const;
  uint64_t rebuilds() const { return rebuilds_; }

 private:
  struct Node {
    NodeFacts facts;
    bool joined = false;
    spec::NodeCondition condition = spec::NodeCondition::kDown;  // as the controller wants it
    bool suspect = false;  // on probation, whatever else it is
    Instant suspect_since{};
    uint32_t readmitted = 0;    // from probation, because nothing else was there
    std::vector<Instant> cuts;  // of the last hour
    std::string last_fault;
    Instant last_fault_at{};
  };
  struct Request {
    proto::Job job;  // without what the scheduler doesn't look at
    Instant submitted{};
    std::string aside;  // why the present cluster could never hold it; empty: the scheduler has it
  };

  Result<scheduler::JobRequest> RequestOf(const proto::Job& job) const;
  scheduler::Policy PolicyNow() const;
  Result<spec::Topology> MakeTopology() const;
  uint32_t SlotsPerAccelerator() const;
  void Rebuild(Instant now);
  std::vector<spec::QueueSpec> QueuesNow() const;  // with the limits that operators have set
  void OfferAside(Instant now);
  // Tells the scheduler what is wanted of a node, as far as its probation allows.
  void Tell(const std::string& name, Node& node, Instant now);
  void NoteProbation(const std::string& name, Node& node, Instant now);
  void NoteProbations(Instant now);
  void SolveCuts(Instant now);
  Duration ProbationOf(const Node& node) const;
  bool Blocked(const JobId& job, const scheduler::Scheduler& of) const;
  void Readmit(Instant now);
  void Offer(const std::string& id, Request& request, Instant now);
  // Limits of the job's queue and of those above, which no node that joins can change.
  Status CheckLimits(const scheduler::JobRequest& request) const;

  spec::ControllerSpec configuration_;
  proto::SchedulingConfiguration configured_;
  std::optional<spec::ClusterDeclaration> declared_;
  std::map<std::string, size_t> declared_index_;
  std::map<std::string, Node> nodes_;
  std::map<std::string, Request> requests_;
  std::optional<scheduler::Scheduler> scheduler_;
  uint32_t slots_per_accelerator_ = 1;
  bool changed_ = false;  // the topology, queues or policy are not those of scheduler_
  bool due_ = false;
  std::optional<Instant> last_round_;
  std::map<std::string, spec::SharedAmounts> limits_;  // set by operators
  std::vector<std::pair<Instant, std::string>> cuts_;  // of all nodes, not judged yet
  std::optional<Instant> readmit_at_;                  // when suspects may be needed
  uint64_t rebuilds_ = 0;
};

}  // namespace longhaul::runtime::scheduling
