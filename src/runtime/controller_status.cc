// What the core shows of itself, and what must always hold.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "runtime/cluster/elastic.h"
#include "runtime/internal/controller_state.h"

namespace longhaul::runtime {

wire::JobStatus Controller::State::StatusOf(const Job& job, Instant now) const {
  wire::JobStatus status;
  *status.mutable_job() = job.spec;
  status.set_state(job.state);
  status.set_reason(job.reason);
  if (job.state == wire::QUEUED && job.target.empty() && !job.closing.has_value()) {
    const std::string waits = scheduler_.WaitText(JobId(job.spec.id()));
    if (!waits.empty()) status.set_reason(waits);
  }
  status.set_preemptions(job.preemptions);
  status.set_moves(job.moves);
  for (const wire::SizeChange& change : job.sizes) *status.add_sizes() = change;
  status.set_resizes(job.resizes);
  status.set_epoch(job.epoch);
  for (const Member& member : job.gang) status.add_gang(member.node.value());
  status.set_step(job.step);
  status.set_highest_step(job.highest_step);
  status.set_first_loss(job.first_loss);
  status.set_loss(job.loss);
  status.set_validation_loss(job.validation_loss);
  status.set_first_validation_loss(job.first_validation_loss);
  status.set_tokens(job.tokens);
  status.set_tokens_per_second(job.tokens_per_second);
  status.set_flops(job.flops);
  status.set_seconds_per_step(job.step_seconds);
  const bool known = job.live() && job.spec.total_steps() > 0 && job.step_seconds > 0;
  status.set_eta_seconds(
      known ? job.step_seconds * static_cast<double>(job.spec.total_steps() - job.step) : -1);
  *status.mutable_ledger() = job.ledger.Summary(std::max(now, now_));
  for (const wire::Fault& fault : job.faults) *status.add_faults() = fault;
  status.set_restarts(job.restarts);
  status.set_memory_step(job.memory_step);
  status.set_committed_step(job.committed_step);
  status.set_committed_epoch(job.committed_epoch);
  status.set_copied_step(job.copied_step);
  status.set_snapshots(job.snapshots);
  status.set_commits(job.commits);
  status.set_snapshot_interval_steps(job.interval.steps());
  status.set_snapshot_interval_reason(job.interval.reason());
  status.set_snapshot_blocked_seconds(job.interval.mean_blocked().count());
  for (const uint64_t snapshots : job.snapshot_ways) status.add_snapshot_ways(snapshots);
  status.set_snapshot_waited_seconds(job.slot_waits.count());
  status.set_snapshot_waited_seconds_max(job.longest_slot_wait.count());
  status.set_submitted_at_ns(ToNanoseconds(job.submitted));
  status.set_ended_at_ns(job.live() ? 0 : ToNanoseconds(job.ended));
  for (const std::string& result : job.results) status.add_results(result);
  status.set_samples_committed(job.data.committed_samples());
  for (const int64_t pid : job.pids) status.add_worker_pids(pid);
  return status;
}

std::optional<wire::JobStatus> Controller::State::StatusOf(const JobId& id, Instant now) const {
  const auto found = jobs_.find(id.value());
  if (found == jobs_.end()) return std::nullopt;
  return StatusOf(found->second, now);
}

std::vector<wire::JobStatus> Controller::State::AllJobs(Instant now) const {
  std::vector<wire::JobStatus> all;
  for (const std::string& id : order_) all.push_back(StatusOf(jobs_.at(id), now));
  return all;
}

wire::NodeStatus Controller::State::StatusOf(const Node& node) const {
  wire::NodeStatus status;
  status.set_name(node.id.value());
  status.set_connected(node.connected);
  status.set_cordoned(node.cordoned);
  status.set_slots(node.facts.slots());
  status.set_used_slots(node.used_slots);
  status.set_address(node.facts.address());
  status.set_host(node.facts.host());
  status.set_incarnation(node.incarnation);
  status.set_cores(node.facts.cores());
  status.set_memory_bytes(node.facts.memory_bytes());
  status.set_losses(node.losses);
  status.set_draining(node.draining);
  status.set_condition(std::string(spec::ToString(scheduler_.ConditionOf(node.id.value()))));
  const cluster::NodeHealth health = scheduler_.HealthOf(node.id.value());
  status.set_health(health.thousandths / 1000.0);
  status.set_last_fault(health.last_fault);
  if (!health.last_fault.empty()) {
    status.set_last_fault_at_ns(ToNanoseconds(health.last_fault_at));
  }
  return status;
}

std::vector<wire::NodeStatus> Controller::State::AllNodes() const {
  std::vector<wire::NodeStatus> all;
  for (const auto& [id, node] : nodes_) {
    if (node.incarnation != 0) all.push_back(StatusOf(node));
  }
  std::map<std::string, std::vector<std::string>> jobs;
  for (const std::string& id : order_) {
    const Job& job = jobs_.at(id);
    if (!job.live()) continue;
    for (const Member& member : job.gang) jobs[member.node.value()].push_back(id);
  }
  for (wire::NodeStatus& node : all) {
    for (const std::string& job : jobs[node.name()]) node.add_jobs(job);
  }
  return all;
}

void Controller::State::NoticeNode(const Node& node) {
  *AddNotice("").mutable_node() = StatusOf(node);
}

Status Controller::State::CheckInvariants() const {
  // Only what the last step touched: the rest has been looked at before.
  for (const Job* job : touched_) {
    if (Status status = CheckJob(*job); !status.ok()) {
      return status.WithContext("job " + job->spec.id());
    }
  }
  return Status();
}

Status Controller::State::CheckJob(const Job& job) const {
  RETURN_IF_ERROR(job.data.Check());
  if (job.step > job.highest_step && job.restore.step() < job.step) {
    return InternalError("the present step is above the highest one");
  }
  if (job.memory_step >= job.lease.end_step() && job.memory_step > job.restore.step()) {
    return InternalError("a snapshot of a step beyond the lease");
  }
  if (job.live() && job.epoch > job.lease.epoch() && !job.gang.empty() && job.lease.epoch() != 0) {
    return InternalError("an open epoch without a lease");
  }
  if (job.faults.size() != job.highest_before.size()) {
    return InternalError("a fault without its beginning");
  }
  if (job.undecided && (job.faults.empty() || job.state != wire::RECOVERING)) {
    return InternalError("a decision is due, but the job isn't recovering");
  }
  if (job.undecided) {
    // Every open wait has a deadline, or a node to wait for.
    const bool timed = deadlines_.all().contains({internal::DeadlineKind::kDecide, job.spec.id()});
    const Node* awaited = FindNode(job.awaited);
    const bool placed = !pending_.contains(job.spec.id());
    if (!timed && placed && (awaited == nullptr || awaited->connected)) {
      return InternalError("a decision is due and nobody waits for it");
    }
  }
  if (job.checked_epoch != job.epoch) {
    job.checked_epoch = job.epoch;
    RETURN_IF_ERROR(CheckGang(job));
    RETURN_IF_ERROR(CheckPlace(job));
  }
  return job.ledger.CheckSums();
}

// What only changes with the epoch, and is as long as the gang.
Status Controller::State::CheckGang(const Job& job) const {
  if (!job.gang.empty() && !BoundsOf(job.spec).allows(job.gang.size())) {
    return InternalError("a gang of " + std::to_string(job.gang.size()) +
                         " nodes is outside the job's bounds");
  }
  std::set<NodeId> members;
  for (const Member& member : job.gang) {
    if (!members.insert(member.node).second) {
      return InternalError("node " + member.node.value() + " is in the gang twice");
    }
    const Node* node = FindNode(member.node);
    if (node == nullptr || node->used_slots > node->facts.slots()) {
      return InternalError("node " + member.node.value() + " has more workers than slots");
    }
  }
  return job.ledger.CheckEveryAccount();
}

namespace {

std::string Deterministic(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

}  // namespace

uint64_t Controller::State::StateHash() const {
  std::string text;
  for (const wire::NodeStatus& node : AllNodes()) text += Deterministic(node);
  text += std::to_string(scheduler_.Fingerprint()) + ",";
  for (const auto& [id, node] : nodes_) text += std::to_string(node.last_sequence) + ",";
  for (const std::string& id : order_) {
    const Job& job = jobs_.at(id);
    text += Deterministic(StatusOf(job, now_));
    text += std::to_string(job.store_port) + "," + std::to_string(job.restore.step()) + "," +
            std::to_string(job.undecided) + "," + std::to_string(job.fruitless) + "," +
            (job.retreat ? std::to_string(static_cast<int>(job.retreat->stage)) : "");
    for (const auto& [step, spread] : job.spreads) {
      text += "|" + std::to_string(step);
      for (const auto& place : spread.places) text += "," + std::to_string(place.size());
    }
    for (const NodeId& node : job.target) text += ">" + node.value();
    for (const Member& member : job.gang) {
      text += ";" + std::to_string(member.started) + std::to_string(member.phase) + "," +
              std::to_string(member.reported_step) + "," + std::to_string(member.sealed[0]) + "," +
              std::to_string(member.sealed[1]) + "," + member.holder.value() + "," +
              std::to_string(member.copied[0]) + "," + std::to_string(member.copied[1]);
    }
  }
  for (const auto& [name, at] : deadlines_.all()) {
    text += std::to_string(static_cast<int>(name.first)) + name.second +
            std::to_string(ToNanoseconds(at));
  }
  return Hash64(text);
}

}  // namespace longhaul::runtime
