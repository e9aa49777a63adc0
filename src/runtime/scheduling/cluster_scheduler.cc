#include "runtime/scheduling/cluster_scheduler.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"
#include "runtime/scheduling/configuration/configuration.h"
#include "runtime/scheduling/elastic.h"
#include "runtime/scheduling/job_request.h"
#include "runtime/scheduling/queue_report.h"
#include "runtime/scheduling/queue_rules.h"
#include "runtime/scheduling/shared_domain.h"
#include "scheduler/natural_order.h"

namespace longhaul::runtime::scheduling {

using scheduler::JobRequest;
using spec::NodeCondition;

namespace {

// Rounds that nothing but time asks for are never closer than this.
constexpr Duration kLeastPause = std::chrono::seconds(1);

// What the scheduler never looks at is long: programs, faults, the file's text.
proto::Job Slim(const proto::Job& job) {
  proto::Job slim;
  slim.set_id(job.id());
  slim.set_nodes(job.nodes());
  slim.set_processes_per_node(job.processes_per_node());
  *slim.mutable_scheduling() = job.scheduling();
  slim.set_minimum_nodes(job.minimum_nodes());
  slim.set_maximum_nodes(job.maximum_nodes());
  slim.set_node_limit(job.node_limit());
  slim.set_tensor(job.tensor());
  slim.set_pipeline(job.pipeline());
  if (job.has_prediction()) *slim.mutable_prediction() = job.prediction();
  return slim;
}

}  // namespace

ClusterScheduler::ClusterScheduler() = default;
ClusterScheduler::~ClusterScheduler() = default;
ClusterScheduler::ClusterScheduler(ClusterScheduler&&) noexcept = default;
ClusterScheduler& ClusterScheduler::operator=(ClusterScheduler&&) noexcept = default;

Status ClusterScheduler::Check(const proto::SchedulingConfiguration& configuration) {
  ASSIGN_OR_RETURN(const Configuration parsed, ReadConfiguration(configuration));
  if (!parsed.cluster) return {};
  // What the queues are promised must be there.
  ASSIGN_OR_RETURN(spec::Topology topology, spec::Topology::Create(*parsed.cluster));
  const auto made = scheduler::Scheduler::Create(std::move(topology), parsed.file.queues,
                                                 PolicyOf(parsed.file, false));
  return made.ok() ? Status() : made.status().WithContext("the controller's file");
}

Status ClusterScheduler::Configure(const proto::SchedulingConfiguration& configuration,
                                   Instant now) {
  // A restart with an unchanged file must not lose the limits that operators have set since.
  if (configuration.text() == configured_.text() &&
      configuration.cluster_text() == configured_.cluster_text()) {
    return {};
  }
  RETURN_IF_ERROR(Check(configuration));
  ASSIGN_OR_RETURN(Configuration parsed, ReadConfiguration(configuration));
  configured_ = configuration;
  limits_.clear();  // the file is the newer word
  configuration_ = std::move(parsed.file);
  cluster_ = DeclaredCluster(std::move(parsed.cluster));
  ChangeAll();
  (void)now;
  return {};
}

void ClusterScheduler::SetNode(const std::string& name, const NodeFacts& facts,
                               NodeCondition condition, Instant now) {
  Node& node = nodes_[name];
  if (!node.joined || !(node.facts == facts)) changed_ = due_ = true;
  node.joined = true;
  node.facts = facts;
  // The scheduler's topology is made anew at the next round if `changed_` is set, and then takes
  // all conditions from nodes_.
  if (node.condition == condition) return;
  NoteProbation(name, node, now);
  node.condition = condition;
  due_ = true;
  if (!changed_ && scheduler_) ReportNode(name, node, now);
}

NodeCondition ClusterScheduler::ConditionFor(const Node& node) {
  const bool suspect = node.probation.on() && node.condition == NodeCondition::kReady;
  return suspect ? NodeCondition::kSuspect : node.condition;
}

void ClusterScheduler::ReportNode(const std::string& name, const Node& node, Instant now) {
  scheduler_->Apply(scheduler::NodeChanged{name, ConditionFor(node)}, now);
}

NodeCondition ClusterScheduler::ConditionOf(const std::string& name) const {
  if (!changed_ && scheduler_) {
    if (const auto node = scheduler_->topology().Find(name)) {
      return scheduler_->state().node(*node).condition;
    }
  }
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? NodeCondition::kDown : found->second.condition;
}

std::string ClusterScheduler::Contradiction(const std::string& name) const {
  const auto joined = nodes_.find(name);
  return joined == nodes_.end() ? "" : cluster_.Contradiction(name, joined->second.facts);
}

// One number for all nodes, because the scheduler compares shapes across the cluster.
uint32_t ClusterScheduler::SlotsPerAccelerator() const {
  uint32_t most = 1;
  for (const auto& [name, node] : nodes_) most = std::max(most, node.facts.slots);
  return (most + spec::kMaxDevices - 1) / spec::kMaxDevices;
}

Result<spec::Topology> ClusterScheduler::MakeTopology(const NodeReservations& reservations) const {
  std::vector<JoinedNode> joined;
  joined.reserve(nodes_.size());
  for (const auto& [name, node] : nodes_) joined.push_back({name, node.facts, node.condition});
  return cluster_.MakeTopology(joined, SlotsPerAccelerator(), reservations);
}

scheduler::Policy ClusterScheduler::PolicyNow() const {
  return PolicyOf(configuration_, !cluster_.has_file());
}

std::vector<spec::QueueSpec> ClusterScheduler::QueuesNow() const {
  std::vector<spec::QueueSpec> queues = configuration_.queues;
  for (spec::QueueSpec& queue : queues) {
    const auto set = limits_.find(queue.name);
    if (set != limits_.end()) ApplyLimit(set->second, queue);
  }
  return queues;
}

void ClusterScheduler::Translate(const spec::Topology& topology, JobRequest& request, Instant now) {
  const auto found = requests_.find(request.id.value());
  if (found == requests_.end()) return;
  const proto::Job& job = found->second.job;
  SetTolerance(found->first, found->second, reservations_.ToleranceOf(OccupantOf(job, now), now));
  Result<JobRequest> again = RequestOf(job, &topology, &found->second.tolerance.names);
  if (again.ok()) {
    request = *std::move(again);
    return;
  }
  // The numbers of models and labels are those of the old cluster. Until the names are known again,
  // no node serves.
  for (scheduler::GroupRequest& group : request.groups) group.shape.classes = {};
}

void ClusterScheduler::Rebuild(Instant now) {
  changed_ = false;
  Result<spec::Topology> topology = MakeTopology(reservations_);
  if (!topology.ok()) return;  // no node yet, or more than the scheduler's limits
  ++rebuilds_;
  const uint32_t slots = SlotsPerAccelerator();
  // Requests depend on the number of slots, and taints on reservations.
  whole_ = whole_ || slots != slots_per_accelerator_ || !reservations_.empty();
  slots_per_accelerator_ = slots;
  NoteProbations(now);
  // The cost of Extend does not grow with the number of requests. It is for a node that joins;
  // other changes need TakeOver.
  if (whole_ || !scheduler_ || !scheduler_->Extend(*topology)) TakeOver(*std::move(topology), now);
  ForEachKnownNode([&](const std::string& name, Node& node, scheduler::NodeIndex index) {
    const NodeCondition condition = ConditionFor(node);
    if (scheduler_->state().node(index).condition != condition) {
      scheduler_->Apply(scheduler::NodeChanged{name, condition}, now);
    }
  });
  OfferAside(now);
}

void ClusterScheduler::TakeOver(spec::Topology topology, Instant now) {
  scheduler::Policy policy = PolicyNow();
  const std::vector<spec::QueueSpec> queues = QueuesNow();
  const auto attempt = [&] {
    if (!scheduler_) return scheduler::Scheduler::Create(topology, queues, policy);
    return scheduler::Scheduler::Rebuild(
        *scheduler_, topology, queues, policy,
        [&](JobRequest& request) { Translate(topology, request, now); });
  };
  Result<scheduler::Scheduler> next = attempt();
  whole_ = !next.ok();
  if (!next.ok()) {
    // A node that joined with fewer slots than declared may make a promise impossible: promises are
    // then kept as far as there is anything. Further nodes may make it possible again.
    policy.growing_cluster = true;
    next = attempt();
  }
  CHECK(next.ok()) << next.status().message();
  scheduler_ = *std::move(next);
}

// What nothing here could hold until now, by submission.
void ClusterScheduler::OfferAside(Instant now) {
  std::vector<std::pair<Instant, std::string>> aside;
  for (const auto& [id, request] : requests_) {
    if (!request.aside.empty()) aside.emplace_back(request.submitted, id);
  }
  std::sort(aside.begin(), aside.end());
  for (const auto& [submitted, id] : aside) Offer(id, requests_.at(id), now);
}

Result<JobRequest> ClusterScheduler::RequestOf(const proto::Job& job,
                                               const spec::Topology* topology,
                                               const std::set<std::string>* tolerated) const {
  static const std::vector<std::string> kNone;
  return ReadRequest(job,
                     {configuration_, cluster_.has_file() ? cluster_.declaration()->levels : kNone,
                      changed_ ? SlotsPerAccelerator() : slots_per_accelerator_, topology,
                      cluster_.has_file(), tolerated});
}

Result<JobRequest> ClusterScheduler::RequestOf(const Request& request) const {
  return RequestOf(request.job, &scheduler_->topology(), &request.tolerance.names);
}

// Changes nothing, so the topology is made here if the next round would make another one. The order
// of the checks is that of their messages: first the request itself, then devices, limits, and the
// cluster as a whole.
Status ClusterScheduler::CheckSubmission(const proto::Job& job) const {
  Result<spec::Topology> made = NotFound("the scheduler's own");
  if (!scheduler_ || changed_) made = MakeTopology(reservations_);
  const spec::Topology* present = scheduler_ ? &scheduler_->topology() : nullptr;
  // A job whose nodes are all reserved now can run later.
  const Result<JobRequest> wanted = RequestOf(job, made.ok() ? &*made : present, nullptr);
  // A node that takes more workers may still join, unless the cluster is declared.
  if (!cluster_.has_file() && wanted.status().code() == Code::kFailedPrecondition) return {};
  ASSIGN_OR_RETURN(const JobRequest request, wanted);
  RETURN_IF_ERROR(CheckDevices(job, made.ok() ? &*made : present, SlotsPerAccelerator()));
  RETURN_IF_ERROR(CheckLimits(QueuesNow(), request));
  // A cluster that nodes may still join can come to hold it.
  if (!cluster_.has_file()) return {};
  if (scheduler_ && !changed_) return scheduler_->CheckSubmission(request);
  if (!made.ok()) return {};
  const auto empty = scheduler::Scheduler::Create(*std::move(made), QueuesNow(), PolicyNow());
  return empty.ok() ? empty->CheckSubmission(request) : Status();
}

void ClusterScheduler::Submit(const proto::Job& job, Instant now, Instant eligible) {
  Request& request = requests_[job.id()];
  request.job = Slim(job);
  request.submitted = eligible;
  request.aside = "no node has joined yet";
  due_ = true;
  if (scheduler_ && !changed_) Offer(job.id(), request, now);
}

void ClusterScheduler::Offer(const std::string& id, Request& request, Instant now) {
  // Without reservations first: a job that only a reservation keeps from its nodes is not set
  // aside, since the reservation ends.
  const Result<JobRequest> whole = RequestOf(request.job, &scheduler_->topology(), nullptr);
  const Status fits = whole.ok() ? scheduler_->CheckSubmission(*whole) : whole.status();
  request.aside = fits.message();
  if (!fits.ok()) return;
  // Only once the scheduler has the job is it known for how long it is expected to run.
  SetTolerance(id, request, reservations_.ToleranceOf(OccupantOf(request.job, now), now));
  Result<JobRequest> wanted = RequestOf(request);
  CHECK(wanted.ok()) << wanted.status().message();
  scheduler::JobAdopted adopted;
  adopted.request = *std::move(wanted);
  adopted.submitted = request.submitted;
  scheduler_->Apply(adopted, now);
  UpdateTolerance(id, request, now);
}

void ClusterScheduler::End(const JobId& job, Instant now) {
  const auto found = requests_.find(job.value());
  if (found == requests_.end()) return;
  SetTolerance(found->first, found->second, {});
  requests_.erase(found);
  due_ = true;
  if (scheduler_) scheduler_->Apply(scheduler::JobEnded{job}, now);
}

void ClusterScheduler::Stopped(const JobId& job, Instant now) {
  due_ = true;
  if (!scheduler_) return;
  scheduler_->Apply(scheduler::JobStopped{job}, now);
  const auto found = requests_.find(job.value());
  if (found != requests_.end()) UpdateTolerance(found->first, found->second, now);
}

void ClusterScheduler::Snapshot(const JobId& job, Instant now) {
  if (scheduler_) scheduler_->Apply(scheduler::SnapshotTaken{job}, now);
}

void ClusterScheduler::Confirm(const JobId& job, uint64_t transaction, bool running, Instant now) {
  if (!scheduler_) return;
  if (running) {
    scheduler_->Apply(scheduler::TasksRunning{job, transaction, {}}, now);
  } else {
    scheduler_->Apply(scheduler::TasksBound{job, transaction, {}}, now);
  }
}

void ClusterScheduler::Expedite(const JobId& job, Instant now) {
  due_ = true;
  if (scheduler_) scheduler_->Apply(scheduler::JobExpedited{job}, now);
}

void ClusterScheduler::Evict(const JobId& job, Instant now) {
  due_ = true;
  if (scheduler_) scheduler_->Apply(scheduler::JobEvictionAsked{job}, now);
}

void ClusterScheduler::Change(const proto::Job& job, Instant now) {
  const auto found = requests_.find(job.id());
  if (found == requests_.end()) return;
  Request& request = found->second;
  request.job = Slim(job);
  due_ = whole_ = true;
  if (!scheduler_ || changed_) return;  // the next round offers it
  // The changed job may fit now.
  if (!request.aside.empty()) return Offer(job.id(), request, now);
  SendAgain(request, now);
  UpdateTolerance(found->first, request, now);
}

Status ClusterScheduler::CheckScale(const proto::Job& job) const {
  if (!scheduler_ || changed_) {
    return FailedPrecondition("the nodes of the cluster are changing; try again");
  }
  return scheduler_->CheckScale(ScaleOf(job));
}

void ClusterScheduler::Scale(const proto::Job& job, Instant now) {
  const auto found = requests_.find(job.id());
  if (found == requests_.end()) return;
  found->second.job = Slim(job);
  due_ = true;
  scheduler_->Apply(ScaleOf(job), now);
}

Status ClusterScheduler::CheckLimit(const std::string& queue, const proto::Amounts& limit) const {
  return CheckNewLimit(configuration_, queue, limit);
}

void ClusterScheduler::SetLimit(const std::string& queue, const proto::Amounts& limit,
                                Instant now) {
  limits_[queue] = limit;
  due_ = true;
  whole_ = whole_ || changed_;
  if (!scheduler_ || changed_) return;
  for (const spec::QueueSpec& each : QueuesNow()) {
    if (each.name != queue) continue;
    const spec::QueueSpec resolved = spec::WithModelDimensions(each, scheduler_->QuotaModels());
    scheduler_->Apply(scheduler::QueueLimitSet{queue, resolved.limit}, now);
  }
  OfferAside(now);
}

// What the reservations need to know of a job: who it belongs to, when it is expected to end, and
// where it runs.
Occupant ClusterScheduler::OccupantOf(const proto::Job& job, Instant now) const {
  Occupant occupant;
  if (reservations_.empty()) return occupant;
  for (const spec::QueueSpec* queue : QueuesOf(configuration_, job)) {
    occupant.queues.push_back(queue->name);
  }
  occupant.user = job.scheduling().owner();
  const JobId id(job.id());
  const auto outlook = OutlookOf(id);
  if (!outlook) return occupant;
  occupant.placed = outlook->placed;
  occupant.ends = (outlook->placed ? outlook->started : now) +
                  std::min(outlook->length, 2 * kLongestReservation);  // no sum overflows
  if (!outlook->placed) return occupant;
  const std::string& preemption = job.scheduling().preemption();
  occupant.stays = preemption == "never" || preemption == "shrink";  // as for a drain
  for (const std::string& node : NodesOf(id)) {
    if (!node.empty()) occupant.on.merge(ReservationsOn(node));  // else it is lost
  }
  return occupant;
}

void ClusterScheduler::SetTolerance(const std::string& id, Request& request, Tolerance tolerance) {
  if (request.tolerance.until) tolerances_end_.erase({*request.tolerance.until, id});
  request.tolerance = std::move(tolerance);
  if (request.tolerance.until) tolerances_end_.insert({*request.tolerance.until, id});
}

void ClusterScheduler::UpdateTolerance(const std::string& id, Request& request, Instant now) {
  if (!scheduler_ || changed_ || !request.aside.empty()) return;  // a rebuild decides it
  if (reservations_.empty()) return;
  const Occupant occupant = OccupantOf(request.job, now);
  Tolerance tolerance = reservations_.ToleranceOf(occupant, now);
  const bool same = tolerance.names == request.tolerance.names;
  // The scheduler takes no other request for a job that has nodes. It gets one when the job waits
  // again.
  if (occupant.placed) tolerance.names = request.tolerance.names;
  SetTolerance(id, request, std::move(tolerance));
  if (!same && !occupant.placed) SendAgain(request, now);
}

void ClusterScheduler::UpdateTolerances(Instant now) {
  while (!tolerances_end_.empty() && tolerances_end_.begin()->first <= now) {
    const std::string id = tolerances_end_.begin()->second;
    Request& request = requests_.at(id);
    Tolerance until_now = request.tolerance;
    until_now.until.reset();
    SetTolerance(id, request, std::move(until_now));
    UpdateTolerance(id, request, now);
  }
}

void ClusterScheduler::SendAgain(const Request& request, Instant now) {
  Result<JobRequest> wanted = RequestOf(request);
  if (!wanted.ok()) return;
  // The scheduler refuses a request that would not even fit the empty cluster. One whose nodes are
  // all reserved has to wait with it all the same: a rebuild takes it over.
  if (!reservations_.empty() && !scheduler_->CheckSubmission(*wanted).ok()) {
    ChangeAll();
    return;
  }
  scheduler_->Apply(scheduler::JobChanged{*std::move(wanted)}, now);
}

std::vector<NodeNames> ClusterScheduler::AllNodes() const {
  std::vector<NodeNames> all;
  std::set<std::string_view> declared;
  if (cluster_.has_file()) {
    for (const spec::DeclaredNode& node : cluster_.declaration()->nodes) {
      all.push_back(cluster_.NamesOf(node.name));
      declared.insert(node.name);
    }
  }
  for (const auto& [name, node] : nodes_) {
    if (!declared.contains(name)) all.push_back(cluster_.NamesOf(name));
  }
  return all;
}

Status ClusterScheduler::CheckReservation(const proto::NodeReservation& wanted, Instant now) const {
  RETURN_IF_ERROR(reservations_.Check(wanted, now));
  for (const std::string& queue : wanted.queues()) {
    if (!spec::PathOf(configuration_.queues, queue).empty()) continue;
    return NotFound("reservation " + wanted.name() + ": there is no queue '" +
                    Printable(queue, 63) + "' (longhaul queues shows those there are)");
  }
  RETURN_IF_ERROR(reservations_.CheckNodes(wanted, AllNodes()));
  NodeReservations with = reservations_;
  with.Add(wanted);
  const Status possible = MakeTopology(with).status();
  return possible.ok() ? possible : possible.WithContext("reservation " + wanted.name());
}

void ClusterScheduler::Reserve(const proto::NodeReservation& reservation) {
  reservations_.Add(reservation);
  ChangeAll();
}

void ClusterScheduler::CancelReservation(const std::string& name) {
  if (reservations_.Cancel(name)) ChangeAll();
}

std::vector<NodeReservations::Change> ClusterScheduler::AdvanceReservations(Instant now) {
  const auto next = reservations_.NextChange();
  if (!next || *next > now) return {};
  ChangeAll();
  return reservations_.Advance(now);
}

std::set<std::string> ClusterScheduler::ReservationsOn(const std::string& node) const {
  if (reservations_.empty()) return {};
  return reservations_.On(cluster_.NamesOf(node));
}

std::string ClusterScheduler::ReservedText(const JobId& job) const {
  const auto found = requests_.find(job.value());
  if (found == requests_.end() || reservations_.empty()) return "";
  return reservations_.TextFor(found->second.tolerance.names, AllNodes());
}

// No job has a node of a reservation that has begun, unless it is a holder or may not be stopped.
Status ClusterScheduler::CheckReserved() const {
  if (reservations_.empty() || due_ || changed_ || !last_round_) return {};
  for (const auto& [id, request] : requests_) {
    const Occupant occupant = OccupantOf(request.job, *last_round_);
    for (const std::string& name : occupant.on) {
      if (!reservations_.IsOpen(name) || occupant.stays ||
          NodeReservations::Admits(reservations_.all().at(name), occupant)) {
        continue;
      }
      return InternalError("job " + id + " has a node of reservation " + name);
    }
  }
  return {};
}

void ClusterScheduler::ApplyTo(const JobRequest& request, proto::Job& job) const {
  WriteRequest(request, scheduler_ ? &scheduler_->topology() : nullptr, job);
}

std::vector<scheduler::LinkView> ClusterScheduler::Links() const {
  return scheduler_ ? scheduler_->Links() : std::vector<scheduler::LinkView>();
}

bool ClusterScheduler::Due(Instant now) const {
  if (due_) return !requests_.empty();
  const auto next = NextDeadline();
  return next.has_value() && *next <= now;
}

// Everything that time changes is applied before the round, in a fixed order, so that the result
// depends on the calls alone.
std::vector<Verdict> ClusterScheduler::Decide(Instant now) {
  AdvanceReservations(now);
  UpdateTolerances(now);
  due_ = false;
  last_round_ = now;
  // A new scheduler forgets the requests of jobs that have ended.
  if (scheduler_ && scheduler_->state().shape_count() > scheduler::kMaxShapes / 2) {
    changed_ = whole_ = true;
  }
  if (changed_) Rebuild(now);
  std::vector<Verdict> verdicts;
  if (!scheduler_) return verdicts;
  SolveCuts(now);
  for (scheduler::Decision& decision : scheduler_->Decide(now)) {
    if (decision.kind == scheduler::DecisionKind::kReserve) continue;
    verdicts.push_back(
        {decision.kind, decision.job, decision.transaction, std::move(decision.reason)});
  }
  Readmit(now);
  return verdicts;
}

std::optional<Instant> ClusterScheduler::NextDeadline() const {
  if (!scheduler_ || requests_.empty() || !last_round_) return std::nullopt;
  auto next = scheduler_->NextDeadline();
  const auto consider = [&next](Instant at) { next = next ? std::min(*next, at) : at; };
  if (readmit_at_) consider(*readmit_at_);
  if (!cuts_.empty()) consider(cuts_.front().first + kCutWindow);
  if (const auto change = reservations_.NextChange()) consider(*change);
  if (!tolerances_end_.empty()) consider(tolerances_end_.begin()->first);
  if (!next) return std::nullopt;
  // A deadline that is due again after each round would otherwise make the controller step without
  // a pause.
  return std::max(*next, *last_round_ + kLeastPause);
}

bool ClusterScheduler::AssignsDevices(const std::string& node) const {
  const auto known = nodes_.find(node);
  return slots_per_accelerator_ == 1 && known != nodes_.end() &&
         cluster_.KnowsDevices(node, known->second.facts.slots);
}

// By rank, with empty names for ranks that have lost their node, so that a place keeps its meaning
// while it is repaired.
std::vector<Place> ClusterScheduler::PlacesOf(const JobId& job) const {
  std::vector<Place> places;
  if (!scheduler_) return places;
  const auto request = requests_.find(job.value());
  const bool assigns =
      request != requests_.end() && request->second.job.scheduling().assigns_devices();
  const auto tasks = scheduler_->TasksOf(job);
  for (const scheduler::TaskPlacement& task : tasks) {
    const auto rank = static_cast<size_t>(task.rank);
    if (places.size() <= rank) places.resize(rank + 1);
    const std::string& name = scheduler_->topology().node(task.node).name;
    places[rank] = {name, assigns && AssignsDevices(name) ? task.gpus : scheduler::GpuMask{0}};
  }
  if (scheduler_->StageOf(job) == scheduler::JobStage::kWaiting ||
      scheduler_->StageOf(job) == scheduler::JobStage::kLeaving ||
      scheduler_->StageOf(job) == scheduler::JobStage::kUnknown) {
    return places;
  }
  if (request != requests_.end()) {
    // An elastic job's last ranks may be gone for good.
    places.resize(std::max<size_t>(places.size(), BoundsOf(request->second.job).minimum));
  }
  return places;
}

std::vector<std::string> ClusterScheduler::NodesOf(const JobId& job) const {
  std::vector<std::string> names;
  for (Place& place : PlacesOf(job)) names.push_back(std::move(place.node));
  return names;
}

std::string ClusterScheduler::SharedDomain(const std::vector<std::string>& nodes,
                                           const std::string& level) const {
  return scheduler_ ? scheduling::SharedDomain(scheduler_->topology(), nodes, level) : "";
}

bool ClusterScheduler::Waits(const JobId& job) const {
  if (!scheduler_) return true;
  const scheduler::JobStage stage = scheduler_->StageOf(job);
  return stage == scheduler::JobStage::kWaiting || stage == scheduler::JobStage::kLeaving ||
         stage == scheduler::JobStage::kUnknown;
}

std::string ClusterScheduler::AsideText(const JobId& job) const {
  const auto found = requests_.find(job.value());
  return found == requests_.end() ? "" : found->second.aside;
}

std::string ClusterScheduler::WaitText(const JobId& job) const {
  const std::string aside = AsideText(job);
  if (!aside.empty() || !scheduler_) return aside;
  return scheduler_->WaitText(job);
}

std::optional<scheduler::Scheduler> ClusterScheduler::Copy() const {
  if (!scheduler_) return std::nullopt;
  return scheduler_->Copy();
}

// For what-if questions: the copy shares nothing with this object.
ClusterScheduler ClusterScheduler::Clone() const {
  ClusterScheduler copy;
  copy.configuration_ = configuration_;
  copy.configured_ = configured_;
  copy.cluster_ = cluster_;
  copy.nodes_ = nodes_;
  copy.requests_ = requests_;
  if (scheduler_) copy.scheduler_ = scheduler_->Copy();
  copy.slots_per_accelerator_ = slots_per_accelerator_;
  copy.changed_ = changed_;
  copy.whole_ = whole_;
  copy.due_ = due_;
  copy.last_round_ = last_round_;
  copy.limits_ = limits_;
  copy.cuts_ = cuts_;
  copy.readmit_at_ = readmit_at_;
  copy.rebuilds_ = rebuilds_;
  copy.reservations_ = reservations_;
  copy.tolerances_end_ = tolerances_end_;
  return copy;
}

std::vector<JobId> ClusterScheduler::Jobs() const {
  std::vector<JobId> jobs;
  for (const auto& [id, request] : requests_) jobs.emplace_back(id);
  return jobs;
}

std::vector<std::string> ClusterScheduler::JoinedNodes() const {
  std::vector<std::string> names;
  for (const auto& [name, node] : nodes_) names.push_back(name);
  return names;
}

std::optional<scheduler::JobOutlook> ClusterScheduler::OutlookOf(const JobId& job) const {
  if (!scheduler_) return std::nullopt;
  return scheduler_->OutlookOf(job);
}

void ClusterScheduler::SetCondition(const std::string& name, NodeCondition condition, Instant now) {
  const auto node = nodes_.find(name);
  if (node != nodes_.end()) SetNode(name, NodeFacts(node->second.facts), condition, now);
}

Status ClusterScheduler::Reconfigure(spec::ControllerSpec configuration,
                                     std::optional<spec::ClusterDeclaration> declared) {
  configuration_ = std::move(configuration);
  cluster_ = DeclaredCluster(std::move(declared));
  ChangeAll();
  ASSIGN_OR_RETURN(spec::Topology topology, MakeTopology(reservations_));
  return scheduler::Scheduler::Create(std::move(topology), QueuesNow(), PolicyNow()).status();
}

std::vector<std::string> ClusterScheduler::QuotaModels() const {
  return spec::QuotaModels(configuration_.queues);
}

std::vector<proto::QueueStatus> ClusterScheduler::Queues() const {
  std::vector<proto::QueueStatus> all;
  if (!scheduler_) return all;
  const auto views = scheduler_->Queues();
  for (const scheduler::QueueView& view : views) {
    const auto declared =
        std::find_if(configuration_.queues.begin(), configuration_.queues.end(),
                     [&](const spec::QueueSpec& each) { return each.name == view.name; });
    all.push_back(DescribeQueue(view, {views.front().guarantee, scheduler_->QuotaModels()},
                                declared == configuration_.queues.end() ? nullptr : &*declared));
  }
  // Jobs that no present node could hold wait too.
  for (const auto& [id, request] : requests_) {
    if (request.aside.empty()) continue;
    const std::string name = request.job.scheduling().queue().empty()
                                 ? configuration_.default_queue
                                 : request.job.scheduling().queue();
    for (proto::QueueStatus& queue : all) {
      const bool here = name.empty() ? queue.parent().empty() && &queue == &all.front()
                                     : queue.name() == name && &queue != &all.front();
      if (here) queue.set_waiting(queue.waiting() + 1);
    }
  }
  return all;
}

// Guarantees are checked only when nothing is pending: between a report and the next round they may
// be unmet.
Status ClusterScheduler::CheckInvariants() const {
  if (!scheduler_) return {};
  RETURN_IF_ERROR(scheduler_->CheckInvariants());
  RETURN_IF_ERROR(CheckReserved());
  // What was reported since the last round may entitle another job.
  if (due_ || changed_ || !last_round_) return {};
  // So may the last round itself, and then the next one is due at once.
  const auto next = scheduler_->NextDeadline();
  if (next && *next <= *last_round_ + Duration(1)) return {};
  return scheduler_->CheckGuarantees(*last_round_);
}

uint64_t ClusterScheduler::Fingerprint() const {
  uint64_t hash = scheduler_ ? scheduler_->Fingerprint() : 0;
  for (const auto& [id, request] : requests_) hash = Hash64(id + request.aside, hash);
  hash = Hash64(std::to_string(reservations_.Fingerprint()), hash);
  for (const auto& [at, id] : tolerances_end_) {
    hash = Hash64(id + " " + std::to_string(ToNanoseconds(at)), hash);
  }
  for (const auto& [queue, limit] : limits_) {
    hash = Hash64(queue + "=" + limit.SerializeAsString(), hash);
  }
  for (const auto& [name, node] : nodes_) {
    if (node.probation.unmarked() && node.cuts.empty()) continue;
    hash = Hash64(name + node.probation.Fingerprint() + std::to_string(node.cuts.size()), hash);
  }
  return Hash64(std::string_view(changed_ ? "changed" : ""), hash);
}

}  // namespace longhaul::runtime::scheduling
