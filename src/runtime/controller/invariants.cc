#include "runtime/controller/invariants.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/controller/placement.h"
#include "runtime/scheduling/elastic.h"

namespace longhaul::runtime::controller {

// Only jobs that the last step read for writing are checked, so that the cost of a check depends on
// the event and not on the number of jobs. CheckPlaces covers the rest in tests.
Status Invariants::CheckTouched() const {
  RETURN_IF_ERROR(context_.releases.Check());
  for (const JobRecord* job : context_.jobs.touched()) {
    if (Status status = CheckJob(*job); !status.ok()) {
      return status.WithContext("job " + job->id());
    }
  }
  return context_.usage.Check();
}

Status Invariants::CheckJob(const JobRecord& job) const {
  RETURN_IF_ERROR(job.data.Check());
  const uint64_t step = job.progress.step();
  const uint64_t restored = job.snapshots.restore().step();
  const proto::DataLease& lease = job.group.lease();
  // A snapshot is sealed before its step is reported, so a restored step may exceed the highest
  // reported one. Any other step may not.
  if (step > job.progress.highest_step() && restored < step) {
    return InternalError("the present step is above the highest one");
  }
  if (job.snapshots.memory_step() >= lease.end_step() && job.snapshots.memory_step() > restored) {
    return InternalError("a snapshot of a step beyond the lease");
  }
  const uint64_t attempt = job.life.attempt();
  if (job.live() && attempt > lease.attempt() && !job.group.empty() && lease.attempt() != 0) {
    return InternalError("an open attempt without a lease");
  }
  if (job.group.size() != job.snapshots.places().size()) {
    return InternalError("the memory of another number of places than the gang has");
  }
  RETURN_IF_ERROR(CheckDecision(job));
  // The time of these checks grows with the number of nodes, so they run once for each attempt.
  if (job.checked_attempt != attempt) {
    job.checked_attempt = attempt;
    RETURN_IF_ERROR(CheckGang(job));
    RETURN_IF_ERROR(CheckPlace(job));
  }
  return job.ledger.CheckSums();
}

// A job in RECOVERING without a deadline, without a pending placement and without a node that may
// return would stay there until the end of the run.
Status Invariants::CheckDecision(const JobRecord& job) const {
  if (!job.faults.undecided()) return {};
  if (job.faults.empty() || job.life.state() != proto::RECOVERING) {
    return InternalError("a decision is due, but the job isn't recovering");
  }
  const auto& deadlines = context_.deadlines.all();
  const bool timed = deadlines.contains({DeadlineKind::kDecide, job.id()}) ||
                     deadlines.contains({DeadlineKind::kNodeCheck, job.id()});
  const Node* awaited = context_.nodes.Find(job.faults.awaited());
  const bool placed = !placement_.IsPending(job.id());
  if (!timed && placed && (awaited == nullptr || awaited->connected)) {
    return InternalError("a decision is due and nobody waits for it");
  }
  return {};
}

Status Invariants::CheckGang(const JobRecord& job) const {
  if (!job.group.empty() && !BoundsAsSubmitted(job.spec()).allows(job.group.size())) {
    return InternalError("a gang of " + std::to_string(job.group.size()) +
                         " nodes is outside the job's bounds");
  }
  std::set<NodeId> members;
  for (const Member& member : job.group.members()) {
    if (!members.insert(member.node).second) {
      return InternalError("node " + member.node.value() + " is in the gang twice");
    }
    const Node* node = context_.nodes.Find(member.node);
    if (node == nullptr || node->used_slots() > node->facts.slots()) {
      return InternalError("node " + member.node.value() + " has more workers than slots");
    }
  }
  return job.ledger.CheckEveryAccount();
}

Status Invariants::CheckPlace(const JobRecord& job) const {
  if (!job.live() || job.closing() || job.life.state() == proto::STOPPING) return {};
  const std::vector<NodeId>& target = job.placement.target();
  const auto given = context_.scheduler.PlacesOf(JobId(job.id()));
  if (given.empty() != target.empty()) {
    return InternalError(
        target.empty() ? "the scheduler has placed the job, but the controller has no target for it"
                       : "it has nodes that the scheduler has given away");
  }
  if (given.size() > target.size()) return InternalError("it has fewer nodes than it was given");
  for (size_t i = 0; i < given.size(); ++i) {
    // The scheduler has no node for this place yet. The job may keep the earlier one as its target
    // until then.
    if (given[i].node.empty()) continue;
    if (given[i].node != target[i].value()) {
      return InternalError("node " + std::to_string(i) + " is " + target[i].value() +
                           ", but the scheduler gave " + given[i].node);
    }
    if (given[i].devices != job.placement.target_devices()[i]) {
      return InternalError("it has other devices of " + given[i].node + " than it was given");
    }
  }
  if (job.placement.leaving() || job.faults.undecided() || job.group.empty()) return {};
  if (placement_.IsPending(job.id())) return {};  // it continues until its new nodes are free
  if (job.group.size() != target.size()) return InternalError("part of a gang runs");
  for (size_t i = 0; i < job.group.size(); ++i) {
    const NodeId& node = job.group.member(i).node;
    if (node != target[i]) {
      return InternalError("it runs on " + node.value() + " in place of " + target[i].value());
    }
    const scheduler::GpuMask has = job.group.member(i).devices;
    const scheduler::GpuMask wanted = job.placement.target_devices()[i];
    if (has != 0 && wanted != 0 && has != wanted) {
      return InternalError("it uses other devices of " + node.value() + " than it was given");
    }
  }
  return {};
}

// Sums are built from the gangs and compared with the counters of the node table, in both
// directions: a node without gangs must count 0.
Status Invariants::CheckPlaces() const {
  if (const Status sound = context_.scheduler.CheckInvariants(); !sound.ok()) {
    return sound.WithContext("scheduler");
  }
  std::map<NodeId, uint32_t> used;
  std::map<std::pair<NodeId, size_t>, uint32_t> devices;
  for (const auto& [id, job] : context_.jobs.all()) {
    if (const Status same = CheckPlace(job); !same.ok()) return same.WithContext("job " + id);
    if (!job.live()) continue;
    if (context_.releases.IsHeld(id) && (!job.group.empty() || !job.placement.target().empty())) {
      return InternalError("job " + id + " has nodes, but it was not offered to the scheduler");
    }
    for (const Member& member : job.group.members()) {
      const SlotClaim claim = job.ClaimOf(member.devices);
      used[member.node] += claim.slots_milli;
      for (size_t i = 0; i < spec::kMaxDevices; ++i) {
        if ((claim.devices >> i & 1) == 0) continue;
        if ((devices[{member.node, i}] += claim.share_milli) <= scheduler::kWholeGpu) continue;
        return InternalError("jobs have more than the whole of device " + std::to_string(i) +
                             " of node " + member.node.value());
      }
    }
  }
  for (const auto& [id, node] : context_.nodes.all()) {
    const auto found = used.find(id);
    if (node.used_milli != (found == used.end() ? 0 : found->second)) {
      return InternalError("node " + id.value() + " counts " + std::to_string(node.used_milli) +
                           " thousandths of slots in use, its gangs another number");
    }
    for (size_t i = 0; i < node.devices.size(); ++i) {
      const auto device = devices.find({id, i});
      if (node.devices[i].share_milli == (device == devices.end() ? 0 : device->second)) continue;
      return InternalError("node " + id.value() + " counts another use of device " +
                           std::to_string(i) + " than its gangs");
    }
  }
  return {};
}

}  // namespace longhaul::runtime::controller
