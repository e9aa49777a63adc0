#include "runtime/controller/handlers/health/start_checks.h"

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/controller/handlers/attempt_starter.h"
#include "runtime/controller/handlers/fault_handler.h"
#include "runtime/controller/handlers/health/node_checks.h"

namespace longhaul::runtime::controller {

bool StartChecks::IsCalledFor(const JobRecord& job) const {
  if (!context_.scheduler.configuration().check_new_nodes || job.group.size() < 2) return false;
  if (context_.options.node_check_limit <= Duration(0)) return false;
  bool has_new = false;
  for (const Member& member : job.group.members()) {
    const Node* node = context_.nodes.Find(member.node);
    // A test beside other jobs would disturb them, and they would disturb it.
    if (node == nullptr || !node->reachable() || node->used_milli > job.accelerators_milli()) {
      return false;
    }
    has_new = has_new || !node->checked;
  }
  return has_new;
}

bool StartChecks::Await(JobRecord& job) {
  if (!IsCalledFor(job)) return false;
  job.start_check = true;
  // Until the workers start, nothing else is expected of the nodes.
  context_.deadlines.Clear(DeadlineKind::kStart, job.id());
  context_.deadlines.Set(DeadlineKind::kNodeCheck, job.id(),
                         context_.now + context_.options.node_check_limit);
  context_.SetState(job, job.life.state(), "its nodes are checked before it starts");
  NodeCheckOrder& order = context_.out.checks.emplace_back();
  order.job = job.id();
  order.attempt = job.life.attempt();
  for (const Member& member : job.group.members()) order.nodes.push_back(member.node);
  return true;
}

void StartChecks::OnNodesChecked(const proto::Event& event) {
  const auto& checked = event.nodes_checked();
  JobRecord* job = context_.jobs.Find(checked.job_id());
  if (job == nullptr || !job->live() || job->closing() || !job->start_check) return;
  if (checked.attempt() != job->life.attempt()) return;
  // Also those that are faulty: a gang that cannot have others starts on them.
  for (const Member& member : job->group.members()) context_.nodes.MarkChecked(member.node);
  const std::vector<FaultyNode> faulty = FaultyNodesOf(checked, job->group);
  const std::string found = FindingsOf(checked, faulty);
  if (!found.empty()) {
    context_.AddMessage(job->id(),
                        checked.error().empty() ? proto::MessageNotification::INFO
                                                : proto::MessageNotification::WARNING,
                        "the check of its nodes before the start: " + found);
  }
  if (faulty.empty()) return Conclude(*job);
  job->start_check = false;
  context_.deadlines.Clear(DeadlineKind::kNodeCheck, job->id());
  const FaultyNode& first = faulty.front();
  faults_.NoteFault(
      *job, {proto::FaultClass::kNode,
             first.node.value() + " has failed the check before the start: " + first.evidence,
             first.node.value(), -1, context_.now, true});
  if (!job->faults.undecided()) return;  // its workers are ending anyway
  faults_.LeaveFaultyNodes(*job, faulty);
  faults_.TryDecide(*job);
}

void StartChecks::OnOverdue(JobRecord& job) {
  context_.AddMessage(job.id(), proto::MessageNotification::WARNING,
                      "the check of its nodes before the start has not ended within " +
                          ToString(context_.options.node_check_limit) + ": it starts");
  Conclude(job);
}

void StartChecks::Conclude(JobRecord& job) {
  job.start_check = false;
  context_.deadlines.Clear(DeadlineKind::kNodeCheck, job.id());
  if (job.faults.undecided()) return;  // another attempt follows
  starter_.Proceed(job);
}

// The first node of the gang receives the order when it reconnects.
void StartChecks::ForgetAll() {
  for (auto& [id, job] : context_.jobs.all()) {
    if (job.start_check) Conclude(job);
  }
}

}  // namespace longhaul::runtime::controller
