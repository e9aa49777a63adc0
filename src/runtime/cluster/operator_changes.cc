// What operators change so that a job can start: who goes first, who leaves, limits, other sizes,
// nodes and links that may be used again.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "runtime/internal/controller_state.h"

namespace longhaul::runtime {

namespace {

constexpr int kMostChanges = 1'000;

}  // namespace

Status Controller::State::CheckChanges(const wire::ChangesAsked& asked) const {
  if (asked.changes().empty()) return InvalidArgument("no change is named");
  if (asked.changes_size() > kMostChanges) {
    return InvalidArgument(std::to_string(asked.changes_size()) + " changes at once; at most " +
                           std::to_string(kMostChanges));
  }
  for (const wire::Change& change : asked.changes()) RETURN_IF_ERROR(CheckChange(change));
  return {};
}

Status Controller::State::CheckChange(const wire::Change& change) const {
  const auto find = [&](const std::string& id) {
    const auto found = jobs_.find(id);
    return found == jobs_.end() ? nullptr : &found->second;
  };
  const auto unknown = [](const std::string& id) {
    return NotFound("no job with the id " + Printable(id, 80));
  };
  switch (change.kind_case()) {
    case wire::Change::kExpedite: {
      const Job* job = find(change.expedite());
      if (job == nullptr) return unknown(change.expedite());
      if (Waits(*job)) return {};
      return FailedPrecondition("job " + change.expedite() +
                                " does not wait: only what waits can be put first");
    }
    case wire::Change::kEvict: {
      const Job* job = find(change.evict());
      if (job == nullptr) return unknown(change.evict());
      // Who is ending gives its nodes away all the sooner: whoever waits is promised them.
      if (job->live() && !job->target.empty()) return {};
      return FailedPrecondition("job " + change.evict() + " has no nodes that it could leave");
    }
    case wire::Change::kJob: {
      const Job* job = find(change.job().id());
      if (job == nullptr) return unknown(change.job().id());
      return CheckJobChange(*job, change.job());
    }
    case wire::Change::kLimit:
      return scheduler_.CheckLimit(change.limit().queue(), change.limit().limit());
    case wire::Change::kUseNode: {
      const Node* node = FindNode(NodeId(change.use_node()));
      if (node == nullptr) return NotFound("no node named " + Printable(change.use_node(), 80));
      if (node->connected) return {};
      return FailedPrecondition("node " + change.use_node() +
                                " is not connected: start its agent again");
    }
    case wire::Change::kTrustLink:
      return scheduler_.CheckLink(change.trust_link().level(), change.trust_link().name());
    case wire::Change::KIND_NOT_SET:
      break;
  }
  return InvalidArgument("a change that says nothing");
}

// Whether it waits for the scheduler, without a place.
bool Controller::State::Waits(const Job& job) const {
  return job.state == wire::QUEUED && job.gang.empty() && job.target.empty() &&
         !job.closing.has_value();
}

Status Controller::State::CheckJobChange(const Job& job, const wire::Job& spec) const {
  const std::string& id = spec.id();
  if (!Waits(job)) return FailedPrecondition("job " + id + " does not wait: it is not changed");
  const bool resized = spec.nodes() != job.spec.nodes() ||
                       spec.processes_per_node() != job.spec.processes_per_node();
  if (resized && HasBegun(job)) {
    return FailedPrecondition("job " + id + " has begun with " + std::to_string(job.spec.nodes()) +
                              " nodes and keeps that size");
  }
  if (spec.nodes() == 0 || spec.processes_per_node() == 0) {
    return InvalidArgument("job " + id + " needs a node and a worker at least");
  }
  const Status fits = scheduler_.CheckSubmission(spec);
  return fits.ok() ? fits : fits.WithContext("job " + id);
}

bool Controller::State::HasBegun(const Job& job) const {
  return job.epoch > job.spec.committed_epoch();
}

bool Controller::State::CanChangeSize(const JobId& id) const {
  const auto found = jobs_.find(id.value());
  return found != jobs_.end() && !HasBegun(found->second);
}

// In the controller's words what the scheduler would be told.
Controller::Remedy Controller::State::RemedyOf(const JobId& id,
                                               const std::vector<scheduler::Event>& fix) const {
  Remedy remedy;
  const auto found = jobs_.find(id.value());
  if (found == jobs_.end()) return remedy;
  wire::Job spec = found->second.spec;
  for (const scheduler::Event& event : fix) {
    wire::Change change;
    if (const auto* expedited = std::get_if<scheduler::JobExpedited>(&event)) {
      change.set_expedite(expedited->job.value());
    } else if (const auto* asked = std::get_if<scheduler::JobEvictionAsked>(&event)) {
      change.set_evict(asked->job.value());
    } else if (const auto* changed = std::get_if<scheduler::JobChanged>(&event)) {
      scheduler_.ApplyTo(changed->request, spec);
      *change.mutable_job() = spec;
    } else if (const auto* limit = std::get_if<scheduler::QueueLimitSet>(&event)) {
      change.mutable_limit()->set_queue(limit->queue);
      *change.mutable_limit()->mutable_limit() = cluster::AmountsOf(limit->limit);
    } else if (const auto* node = std::get_if<scheduler::NodeChanged>(&event)) {
      const Node* known = FindNode(NodeId(node->node));
      if (known == nullptr || !known->connected) {
        remedy.missing.push_back(node->node);
        continue;
      }
      change.set_use_node(node->node);
    } else if (const auto* link = std::get_if<scheduler::LinkChanged>(&event)) {
      for (const scheduler::LinkView& view : scheduler_.Links()) {
        if (view.tier != link->tier || view.domain != link->domain) continue;
        change.mutable_trust_link()->set_level(view.level);
        change.mutable_trust_link()->set_name(view.name);
      }
    }
    if (change.kind_case() != wire::Change::KIND_NOT_SET) remedy.changes.push_back(change);
  }
  return remedy;
}

void Controller::State::OnChangesAsked(const wire::ChangesAsked& asked) {
  if (!CheckChanges(asked).ok()) return;
  for (const wire::Change& change : asked.changes()) Make(change, asked.reason());
}

void Controller::State::Make(const wire::Change& change, const std::string& reason) {
  const std::string because = reason.empty() ? "" : ": " + reason;
  switch (change.kind_case()) {
    case wire::Change::kExpedite:
      Say(change.expedite(), wire::MessageNotice::INFO, "put before all other jobs" + because);
      return scheduler_.Expedite(JobId(change.expedite()), now_);
    case wire::Change::kEvict:
      Say(change.evict(), wire::MessageNotice::INFO, "asked to leave its nodes" + because);
      return scheduler_.Evict(JobId(change.evict()), now_);
    case wire::Change::kJob:
      return ChangeJob(*FindJob(change.job().id()), change.job());
    case wire::Change::kLimit:
      Say("", wire::MessageNotice::INFO,
          "queue " + change.limit().queue() + " has another limit" + because);
      return scheduler_.SetLimit(change.limit().queue(), change.limit().limit(), now_);
    case wire::Change::kUseNode: {
      Node& node = *FindNode(NodeId(change.use_node()));
      node.cordoned = node.draining = false;
      node.enlisted = true;
      scheduler_.Trust(node.id.value());
      TellNode(node);
      return NoticeNode(node);
    }
    case wire::Change::kTrustLink:
      Say("", wire::MessageNotice::INFO,
          "the links of " + change.trust_link().name() + " are trusted again" + because);
      return scheduler_.TrustLink(change.trust_link().level(), change.trust_link().name(), now_);
    case wire::Change::KIND_NOT_SET:
      return;
  }
}

void Controller::State::ChangeJob(Job& job, const wire::Job& spec) {
  const bool resized = spec.nodes() != job.spec.nodes() ||
                       spec.processes_per_node() != job.spec.processes_per_node();
  job.spec = spec;
  if (!HasBegun(job)) {
    job.injected.assign(static_cast<size_t>(spec.faults_size()), false);
    job.data = DataLedger(spec.data());
  }
  // Nothing but waiting has been booked, and it is one's wait, not so many nodes'.
  if (resized) {
    job.ledger = GoodputLedger(job.submitted, spec.nodes(), spec.processes_per_node());
  }
  Say(spec.id(), wire::MessageNotice::INFO,
      "changed: " + std::to_string(spec.nodes()) + " nodes of " +
          std::to_string(spec.processes_per_node()) + " workers" +
          (spec.scheduling().topology().empty() ? "" : " in one " + spec.scheduling().topology()));
  scheduler_.Change(spec, now_);
}

}  // namespace longhaul::runtime
