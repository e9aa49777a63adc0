#include "runtime/controller/handlers/operator_changes.h"

#include <utility>

#include "base/text.h"
#include "runtime/controller/handlers/job_releaser.h"
#include "runtime/scheduling/elastic.h"
#include "runtime/scheduling/queue_report.h"

namespace longhaul::runtime::controller {

namespace {

constexpr int kMostChanges = 1'000;

// Whether it waits for the scheduler, without a place.
// A job that ends, or has nodes assigned but not free yet, is no longer waiting for the scheduler.
bool Waits(const JobRecord& job) {
  return job.life.state() == proto::QUEUED && job.group.empty() && job.placement.target().empty() &&
         !job.closing();
}

std::string BecauseOf(const std::string& reason) { return reason.empty() ? "" : ": " + reason; }

proto::Job Scaled(proto::Job job, const proto::Change::Scale& scale) {
  const bool limits = scale.nodes() < BoundsAsSubmitted(job).maximum;
  job.set_node_limit(limits ? scale.nodes() : 0);
  return job;
}

std::string NameOf(const proto::NodeReservation& reservation) {
  const bool maintenance = reservation.queues().empty() && reservation.users().empty();
  return (maintenance ? "the maintenance window " : "the reservation ") + reservation.name();
}

}  // namespace

// All or none: a request is refused as a whole if one of its changes is not possible now. Changes
// of one request may still exclude each other, so Reserve checks again.
Status OperatorChanges::Check(const proto::ChangesAsked& asked) const {
  if (asked.changes().empty()) return InvalidArgument("no change is named");
  if (asked.changes_size() > kMostChanges) {
    return InvalidArgument(std::to_string(asked.changes_size()) + " changes at once; at most " +
                           std::to_string(kMostChanges));
  }
  for (const proto::Change& change : asked.changes()) RETURN_IF_ERROR(CheckChange(change));
  return {};
}

Status OperatorChanges::CheckChange(const proto::Change& change) const {
  const auto unknown = [](const std::string& id) {
    return NotFound("no job with the id " + Printable(id, 80));
  };
  switch (change.kind_case()) {
    case proto::Change::kExpedite: {
      const JobRecord* job = jobs().Find(change.expedite());
      if (job == nullptr) return unknown(change.expedite());
      if (context_.releases.IsHeld(change.expedite())) {
        return FailedPrecondition("job " + change.expedite() + " " +
                                  context_.releases.WaitText(change.expedite()) +
                                  ": it has no place among the waiting jobs yet");
      }
      if (Waits(*job)) return {};
      return FailedPrecondition("job " + change.expedite() +
                                " does not wait: only what waits can be put first");
    }
    case proto::Change::kEvict: {
      const JobRecord* job = jobs().Find(change.evict());
      if (job == nullptr) return unknown(change.evict());
      // Who is ending gives its nodes away all the sooner: whoever waits is promised them.
      if (job->live() && !job->placement.target().empty()) return {};
      return FailedPrecondition("job " + change.evict() + " has no nodes that it could leave");
    }
    case proto::Change::kJob: {
      const JobRecord* job = jobs().Find(change.job().id());
      if (job == nullptr) return unknown(change.job().id());
      return CheckJobChange(*job, change.job());
    }
    case proto::Change::kScale:
      return CheckScale(change.scale());
    case proto::Change::kLimit:
      return context_.scheduler.CheckLimit(change.limit().queue(), change.limit().limit());
    case proto::Change::kUseNode: {
      const Node* node = context_.nodes.Find(NodeId(change.use_node()));
      if (node == nullptr) return NotFound("no node named " + Printable(change.use_node(), 80));
      if (node->connected) return {};
      return FailedPrecondition("node " + change.use_node() +
                                " is not connected: start its agent again");
    }
    case proto::Change::kTrustLink:
      return context_.scheduler.CheckLink(change.trust_link().level(), change.trust_link().name());
    case proto::Change::kRelease:
      return releaser_.CheckRelease(change.release());
    case proto::Change::kReserve:
      return context_.scheduler.CheckReservation(change.reserve(), context_.now);
    case proto::Change::kCancelReservation:
      return context_.scheduler.reservations().CheckCancel(change.cancel_reservation());
    case proto::Change::KIND_NOT_SET:
      break;
  }
  return InvalidArgument("a change that says nothing");
}

Status OperatorChanges::CheckJobChange(const JobRecord& job, const proto::Job& spec) const {
  const std::string& id = spec.id();
  if (!Waits(job)) return FailedPrecondition("job " + id + " does not wait: it is not changed");
  const bool resized = spec.nodes() != job.spec().nodes() ||
                       spec.processes_per_node() != job.spec().processes_per_node();
  // Its layout, samples and checkpoints belong to the size with which it began.
  if (resized && job.has_begun()) {
    return FailedPrecondition("job " + id + " has begun with " +
                              std::to_string(job.spec().nodes()) + " nodes and keeps that size");
  }
  if (spec.nodes() == 0 || spec.processes_per_node() == 0) {
    return InvalidArgument("job " + id + " needs a node and a worker at least");
  }
  const Status fits = context_.scheduler.CheckSubmission(spec);
  return fits.ok() ? fits : fits.WithContext("job " + id);
}

Status OperatorChanges::CheckScale(const proto::Change::Scale& scale) const {
  const std::string& id = scale.job_id();
  const JobRecord* job = jobs().Find(id);
  if (job == nullptr) return NotFound("no job with the id " + Printable(id, 80));
  RETURN_IF_ERROR(CheckNodeLimit(job->spec(), scale.nodes()));
  if (!job->live() || job->closing() || job->life.state() == proto::STOPPING) {
    return FailedPrecondition("job " + id + " ends: it is not scaled");
  }
  if (context_.releases.IsHeld(id) || Waits(*job)) return {};
  return context_.scheduler.CheckScale(Scaled(job->spec(), scale));
}

bool OperatorChanges::CanChangeSize(const JobId& id) const {
  const JobRecord* job = jobs().Find(id.value());
  return job != nullptr && !job->has_begun();
}

// The scheduler proposes events of its own model; each has one counterpart among the controller's
// changes. A node that has not joined cannot be enlisted by a change, so its name goes into
// `missing`. Changes of the job accumulate in one specification, because each change carries the
// whole of it.
Controller::Remedy OperatorChanges::RemedyOf(const JobId& id,
                                             const std::vector<scheduler::Event>& fix) const {
  Controller::Remedy remedy;
  const JobRecord* job = jobs().Find(id.value());
  if (job == nullptr) return remedy;
  proto::Job spec = job->spec();
  for (const scheduler::Event& event : fix) {
    proto::Change change;
    if (const auto* expedited = std::get_if<scheduler::JobExpedited>(&event)) {
      change.set_expedite(expedited->job.value());
    } else if (const auto* asked = std::get_if<scheduler::JobEvictionAsked>(&event)) {
      change.set_evict(asked->job.value());
    } else if (const auto* changed = std::get_if<scheduler::JobChanged>(&event)) {
      context_.scheduler.ApplyTo(changed->request, spec);
      *change.mutable_job() = spec;
    } else if (const auto* limit = std::get_if<scheduler::QueueLimitSet>(&event)) {
      change.mutable_limit()->set_queue(limit->queue);
      *change.mutable_limit()->mutable_limit() =
          scheduling::AmountsOf(limit->limit, context_.scheduler.QuotaModels());
    } else if (const auto* node = std::get_if<scheduler::NodeChanged>(&event)) {
      const Node* known = context_.nodes.Find(NodeId(node->node));
      if (known == nullptr || !known->connected) {
        remedy.missing.push_back(node->node);
        continue;
      }
      change.set_use_node(node->node);
    } else if (const auto* link = std::get_if<scheduler::LinkChanged>(&event)) {
      for (const scheduler::LinkView& view : context_.scheduler.Links()) {
        if (view.tier != link->tier || view.domain != link->domain) continue;
        change.mutable_trust_link()->set_level(view.level);
        change.mutable_trust_link()->set_name(view.name);
      }
    }
    if (change.kind_case() != proto::Change::KIND_NOT_SET) remedy.changes.push_back(change);
  }
  return remedy;
}

// The service checks a request before it logs the event. The check is repeated, so that the result
// depends on the state and the event alone, in a replay too.
void OperatorChanges::OnChangesAsked(const proto::ChangesAsked& asked) {
  if (!Check(asked).ok()) return;
  for (const proto::Change& change : asked.changes()) Make(change, asked.reason());
}

void OperatorChanges::Make(const proto::Change& change, const std::string& reason) {
  const std::string because = BecauseOf(reason);
  switch (change.kind_case()) {
    case proto::Change::kExpedite:
      context_.AddMessage(change.expedite(), proto::MessageNotification::INFO,
                          "put before all other jobs" + because);
      return context_.scheduler.Expedite(JobId(change.expedite()), context_.now);
    case proto::Change::kEvict:
      context_.AddMessage(change.evict(), proto::MessageNotification::INFO,
                          "asked to leave its nodes" + because);
      return context_.scheduler.Evict(JobId(change.evict()), context_.now);
    case proto::Change::kJob:
      return ChangeJob(context_.jobs.at(change.job().id()), change.job());
    case proto::Change::kScale:
      return Scale(change.scale(), because);
    case proto::Change::kLimit:
      context_.AddMessage("", proto::MessageNotification::INFO,
                          "queue " + change.limit().queue() + " has another limit" + because);
      return context_.scheduler.SetLimit(change.limit().queue(), change.limit().limit(),
                                         context_.now);
    case proto::Change::kUseNode: {
      const NodeId node(change.use_node());
      context_.nodes.Enlist(node);
      context_.scheduler.Trust(node.value());
      context_.UpdateScheduler(node);
      return context_.AddNodeNotification(node);
    }
    case proto::Change::kTrustLink:
      context_.AddMessage(
          "", proto::MessageNotification::INFO,
          "the links of " + change.trust_link().name() + " are trusted again" + because);
      return context_.scheduler.TrustLink(change.trust_link().level(), change.trust_link().name(),
                                          context_.now);
    case proto::Change::kRelease:
      context_.AddMessage(context_.jobs.contains(change.release()) ? change.release() : "",
                          proto::MessageNotification::INFO,
                          change.release() + " no longer waits for other jobs" + because);
      return releaser_.Release(change.release());
    case proto::Change::kReserve:
      return Reserve(change.reserve());
    case proto::Change::kCancelReservation:
      return CancelReservation(change.cancel_reservation(), because);
    case proto::Change::KIND_NOT_SET:
      return;
  }
}

void OperatorChanges::Reserve(const proto::NodeReservation& reservation) {
  // Another one of the same event may have taken its nodes.
  const Status possible = context_.scheduler.CheckReservation(reservation, context_.now);
  if (!possible.ok()) {
    return context_.AddMessage("", proto::MessageNotification::WARNING, possible.message());
  }
  context_.AddMessage("", proto::MessageNotification::INFO,
                      NameOf(reservation) + " is from " +
                          ToString(InstantFromNanoseconds(reservation.from_ns())) + " until " +
                          ToString(InstantFromNanoseconds(reservation.until_ns())) +
                          BecauseOf(reservation.reason()));
  context_.scheduler.Reserve(reservation);
  AdvanceReservations();
  WatchReservations();
}

void OperatorChanges::CancelReservation(const std::string& name, const std::string& because) {
  const auto& all = context_.scheduler.reservations().all();
  const auto found = all.find(name);
  if (found == all.end()) return;
  context_.AddMessage("", proto::MessageNotification::INFO,
                      NameOf(found->second) + " is cancelled" + because);
  context_.scheduler.CancelReservation(name);
  WatchReservations();
}

void OperatorChanges::AdvanceReservations() {
  const auto changes = context_.scheduler.AdvanceReservations(context_.now);
  for (const scheduling::NodeReservations::Change& change : changes) {
    context_.AddMessage("", proto::MessageNotification::INFO,
                        NameOf(change.reservation) + (change.begins ? " begins" : " is over"));
  }
  if (!changes.empty()) WatchReservations();
}

void OperatorChanges::WatchReservations() {
  if (const auto next = context_.scheduler.reservations().NextChange()) {
    context_.deadlines.Set(DeadlineKind::kReserved, "", *next);
  } else {
    context_.deadlines.Clear(DeadlineKind::kReserved, "");
  }
}

void OperatorChanges::Scale(const proto::Change::Scale& scale, const std::string& because) {
  JobRecord& job = context_.jobs.at(scale.job_id());
  // Another one of the same event may have scaled it.
  const Status possible = CheckScale(scale);
  if (!possible.ok()) {
    return context_.AddMessage(job.id(), proto::MessageNotification::WARNING, possible.message());
  }
  const bool waits = Waits(job);
  job.life.Change(Scaled(job.spec(), scale));
  context_.AddMessage(job.id(), proto::MessageNotification::INFO,
                      "scaled to " + Counted(scale.nodes(), "node") + " at most" + because);
  if (context_.releases.IsHeld(job.id())) return;  // it is submitted to the scheduler later
  if (waits) return context_.scheduler.Change(job.spec(), context_.now);
  context_.scheduler.Scale(job.spec(), context_.now);
}

void OperatorChanges::ChangeJob(JobRecord& job, const proto::Job& spec) {
  const bool resized = spec.nodes() != job.spec().nodes() ||
                       spec.processes_per_node() != job.spec().processes_per_node();
  job.life.Change(spec);
  // The plan of faults and the data set are part of the specification. Before the first attempt
  // nothing refers to the earlier ones.
  if (!job.has_begun()) {
    job.faults.ResetPlan(spec.faults_size());
    job.data = DataLedger(spec.data());
  }
  // Nothing but waiting has been booked, and it is one's wait, not so many nodes'.
  if (resized) {
    job.ledger = GoodputLedger(job.life.submitted(), spec.nodes(), spec.processes_per_node());
  }
  context_.AddMessage(
      spec.id(), proto::MessageNotification::INFO,
      "changed: " + std::to_string(spec.nodes()) + " nodes of " +
          std::to_string(spec.processes_per_node()) + " workers" +
          (spec.scheduling().topology().empty() ? "" : " in one " + spec.scheduling().topology()));
  context_.scheduler.Change(spec, context_.now);
}

}  // namespace longhaul::runtime::controller
