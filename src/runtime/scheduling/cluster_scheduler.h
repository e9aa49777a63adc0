// The controller's interface to the scheduler: nodes that join, and jobs as clients submit them.
//
// scheduler::Scheduler decides over a declared topology. Here nodes appear by joining, so this
// class stores the facts of each and derives the topology from them, in natural order of the names
// (or from the configuration's cluster file). When the topology changes, Scheduler::Rebuild moves
// all jobs. A worker slot is an accelerator. A node with more than 16 slots has accelerators of
// several slots each (`slots_per_accelerator`, one number for the cluster) and an exact count of
// slots, so it never gets more workers than it has slots for.
//
// The state is a function of the calls. Jobs that the present nodes could never run are kept aside
// and offered again when the cluster changes, unless the cluster is declared.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "proto/events.pb.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"
#include "runtime/scheduling/configuration/declared_cluster.h"
#include "runtime/scheduling/health.h"
#include "runtime/scheduling/reservations/node_reservations.h"
#include "scheduler/scheduler.h"
#include "spec/cluster/topology.h"
#include "spec/queue/controller_file.h"

namespace longhaul::runtime::scheduling {

// A decision of the scheduler about a job of the controller.
struct Verdict {
  scheduler::DecisionKind kind = scheduler::DecisionKind::kStart;
  JobId job;
  uint64_t transaction = 0;
  std::string reason;
};

// The place of a job's node rank.
struct Place {
  std::string node;                // empty: lost
  scheduler::GpuMask devices = 0;  // of the node; 0: they are not assigned

  friend bool operator==(const Place&, const Place&) = default;
};

// How reliable a node is.
struct NodeHealth {
  uint16_t thousandths = 1'000;
  std::string last_fault;  // the last fault that counted against it
  Instant last_fault_at{};
};

class ClusterScheduler {
 public:
  ClusterScheduler();
  ~ClusterScheduler();
  ClusterScheduler(ClusterScheduler&&) noexcept;
  ClusterScheduler& operator=(ClusterScheduler&&) noexcept;

  // Returns whether a configuration can be used; kInvalidArgument names file, line and remedy.
  static Status Check(const proto::SchedulingConfiguration& configuration);
  // Applies the configuration. One that Check refuses changes nothing.
  Status Configure(const proto::SchedulingConfiguration& configuration, Instant now);
  const spec::ControllerSpec& configuration() const { return configuration_; }

  // Sets the node's facts. `condition` is the controller's choice.
  void SetNode(const std::string& name, const NodeFacts& facts, spec::NodeCondition condition,
               Instant now);
  // Returns in what the facts of a joined node fall short of the cluster file; empty when they
  // agree or the node is not declared.
  std::string Contradiction(const std::string& name) const;
  spec::NodeCondition ConditionOf(const std::string& name) const;
  // The cluster file, with the standard condition and the device model of each node.
  const DeclaredCluster& cluster() const { return cluster_; }

  // Returns kFailedPrecondition when the job could never run here (with the largest size that
  // could), and kInvalidArgument when it names something that doesn't exist.
  Status CheckSubmission(const proto::Job& job) const;

  // `eligible`: since when it waits; no later than `now`.
  void Submit(const proto::Job& job, Instant now, Instant eligible);
  void Submit(const proto::Job& job, Instant now) { Submit(job, now, now); }
  void End(const JobId& job, Instant now);
  void Stopped(const JobId& job, Instant now);
  void Snapshot(const JobId& job, Instant now);
  void Confirm(const JobId& job, uint64_t transaction, bool running, Instant now);

  // --- Changes by operators. Check... returns why not; the others require that it returned OK.
  void Expedite(const JobId& job, Instant now);
  void Evict(const JobId& job, Instant now);
  void Change(const proto::Job& job, Instant now);  // a waiting one, which keeps its place
  // Of a job that runs, with another node_limit. Takes nodes from it that it has beyond the limit.
  Status CheckScale(const proto::Job& job) const;
  void Scale(const proto::Job& job, Instant now);
  Status CheckLimit(const std::string& queue, const proto::Amounts& limit) const;
  // In force until the configuration changes.
  void SetLimit(const std::string& queue, const proto::Amounts& limit, Instant now);
  void Trust(const std::string& node);  // a suspect becomes ready with its next condition
  // Sets the job's size, topology and device models to those of the scheduler's request.
  void ApplyTo(const scheduler::JobRequest& request, proto::Job& job) const;
  std::vector<scheduler::LinkView> Links() const;
  Status CheckLink(const std::string& level, const std::string& name) const;
  void TrustLink(const std::string& level, const std::string& name, Instant now);

  // --- Reservations of nodes (reservations/node_reservations.h).
  Status CheckReservation(const proto::NodeReservation& wanted, Instant now) const;
  void Reserve(const proto::NodeReservation& reservation);  // requires that it is accepted
  void CancelReservation(const std::string& name);
  // Begins and ends reservations, as Decide does too. Returns which.
  std::vector<NodeReservations::Change> AdvanceReservations(Instant now);
  const NodeReservations& reservations() const { return reservations_; }
  // The names of the reservations of a node.
  std::set<std::string> ReservationsOn(const std::string& node) const;
  // The names of each node, joined or declared; valid until the next change.
  std::vector<NodeNames> AllNodes() const;
  // Which reservations keep nodes from a job, for people; empty: none does.
  std::string ReservedText(const JobId& job) const;

  // --- Reliability of nodes and links (scheduling/health.cc).
  // A fault of the node itself. It costs a third of the node's health; with half of it lost, the
  // node is on probation.
  void Fault(const std::string& node, const std::string& what, Instant now);
  // The node's connection broke for a moment. Three times an hour is a fault of the node. If many
  // nodes of one declared leaf break at once, and few others, it is a fault of the leaf's links.
  void Cut(const std::string& node, Instant now);
  NodeHealth HealthOf(const std::string& node) const;

  // Whether something changed since the last round, or a deadline of the scheduler has passed.
  bool Due(Instant now) const;
  std::vector<Verdict> Decide(Instant now);
  std::optional<Instant> NextDeadline() const;

  // Returns a job's nodes, by rank, with empty names for lost ones; empty when it waits. Devices
  // are assigned on nodes whose devices the cluster file declares, to jobs that ask for it.
  std::vector<Place> PlacesOf(const JobId& job) const;
  std::vector<std::string> NodesOf(const JobId& job) const;
  bool Waits(const JobId& job) const;
  // Returns the name of the domain of the level that has all these nodes; empty: none has, or the
  // level does not exist.
  std::string SharedDomain(const std::vector<std::string>& nodes, const std::string& level) const;
  // Returns a short text why a job waits.
  std::string WaitText(const JobId& job) const;

  // Returns a copy of the scheduler, with which another thread can explain a job. Nothing for jobs
  // kept aside (`aside` has the reason) and before a node has joined.
  std::optional<scheduler::Scheduler> Copy() const;
  std::string AsideText(const JobId& job) const;

  // --- What-if questions (what_if.h).
  // Returns an independent copy.
  ClusterScheduler Clone() const;
  std::vector<JobId> Jobs() const;  // all live ones, by id
  std::vector<std::string> JoinedNodes() const;
  std::optional<scheduler::JobOutlook> OutlookOf(const JobId& job) const;
  // No effect on a node that has not joined.
  void SetCondition(const std::string& node, spec::NodeCondition condition, Instant now);
  // Uses other queues and nodes than the configuration's texts declare. Refuses what the scheduler
  // cannot use; this is then in no valid state.
  Status Reconfigure(spec::ControllerSpec configuration,
                     std::optional<spec::ClusterDeclaration> declared);
  std::vector<proto::QueueStatus> Queues() const;
  // The device models for which the controller's file has quotas, by name.
  std::vector<std::string> QuotaModels() const;

  // Checks this class's invariants, and that the last round kept all guarantees.
  Status CheckInvariants() const;
  uint64_t Fingerprint() const;
  uint64_t rebuilds() const { return rebuilds_; }

 private:
  struct Node {
    NodeFacts facts;
    bool joined = false;
    spec::NodeCondition condition = spec::NodeCondition::kDown;  // the controller's choice
    Probation probation;
    std::vector<Instant> cuts;  // of the last hour
    std::string last_fault;
  };
  struct Request {
    proto::Job job;  // without the fields that the scheduler doesn't use
    Instant submitted{};
    std::string aside;  // why the present cluster could never hold it; empty: the scheduler has it
    Tolerance tolerance;  // of reservations, as the scheduler's request has it
  };

  // The request for the cluster `topology`; null: no node has joined and none is declared. It is
  // restricted to the nodes of reservations that are `tolerated`; null: to none.
  Result<scheduler::JobRequest> RequestOf(const proto::Job& job, const spec::Topology* topology,
                                          const std::set<std::string>* tolerated) const;
  // The request for the scheduler's cluster. Requires a scheduler.
  Result<scheduler::JobRequest> RequestOf(const Request& request) const;
  Occupant OccupantOf(const proto::Job& job, Instant now) const;
  void SetTolerance(const std::string& id, Request& request, Tolerance tolerance);
  // Decides again which reservations a job tolerates; if that differs and the job waits, the
  // scheduler gets its request again.
  void UpdateTolerance(const std::string& id, Request& request, Instant now);
  void UpdateTolerances(Instant now);  // of the jobs for which the time has come
  // Sends the changed request of a waiting job.
  void SendAgain(const Request& request, Instant now);
  Status CheckReserved() const;
  scheduler::Policy PolicyNow() const;
  Result<spec::Topology> MakeTopology(const NodeReservations& reservations) const;
  uint32_t SlotsPerAccelerator() const;
  // The scheduler takes over what changed. For nodes alone it is extended (Scheduler::Extend),
  // which decides alike and costs less than to take all over.
  void Rebuild(Instant now);
  void TakeOver(spec::Topology topology, Instant now);
  void ChangeAll() { changed_ = due_ = whole_ = true; }
  // Brings the request of a known job into the terms of another cluster.
  void Translate(const spec::Topology& topology, scheduler::JobRequest& request, Instant now);
  std::vector<spec::QueueSpec> QueuesNow() const;  // with the limits set by operators
  void OfferAside(Instant now);
  // The condition of a node for the scheduler, as far as its probation allows.
  static spec::NodeCondition ConditionFor(const Node& node);
  void ReportNode(const std::string& name, const Node& node, Instant now);
  // Calls use(name, node, its number) for each joined node that the scheduler knows, by name.
  template <typename Use>
  void ForEachKnownNode(const Use& use) {
    if (!scheduler_) return;
    const spec::Topology& topology = scheduler_->topology();
    auto at = topology.by_name().begin();
    const auto end = topology.by_name().end();
    for (auto& [name, node] : nodes_) {
      while (at != end && topology.node(*at).name < name) ++at;
      if (at != end && topology.node(*at).name == name) use(name, node, *at);
    }
  }
  void NoteProbation(const std::string& name, Node& node, Instant now);
  void NoteProbation(scheduler::NodeIndex index, Node& node, Instant now);
  void NoteProbations(Instant now);
  void SolveCuts(Instant now);
  Lack LackOf(const JobId& job, const scheduler::Scheduler& of) const;
  void Readmit(Instant now);
  std::optional<Instant> ReadmitFor(Lack lack, Instant now);
  void Offer(const std::string& id, Request& request, Instant now);
  bool AssignsDevices(const std::string& node) const;

  spec::ControllerSpec configuration_;
  proto::SchedulingConfiguration configured_;
  DeclaredCluster cluster_;
  std::map<std::string, Node> nodes_;
  std::map<std::string, Request> requests_;
  std::optional<scheduler::Scheduler> scheduler_;
  uint32_t slots_per_accelerator_ = 1;
  bool changed_ = false;  // the topology, queues or policy are not those of scheduler_
  bool whole_ = true;     // more than nodes has changed, or may have to
  bool due_ = false;
  std::optional<Instant> last_round_;
  std::map<std::string, proto::Amounts> limits_;       // set by operators
  std::vector<std::pair<Instant, std::string>> cuts_;  // of all nodes, not evaluated yet
  std::optional<Instant> readmit_at_;                  // when suspects may be needed
  uint64_t rebuilds_ = 0;
  NodeReservations reservations_;
  std::set<std::pair<Instant, std::string>> tolerances_end_;  // of requests, by time
  // Clone copies each of these.
};

}  // namespace longhaul::runtime::scheduling
