#include "runtime/controller/handlers/health/node_checks.h"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/controller/handlers/fault_handler.h"

namespace longhaul::runtime::controller {

namespace {

using InquiryStage = NodeInquiry::Stage;

// A process that SIGKILL does not end within this time waits in the kernel, for a device or a file
// system.
constexpr Duration kKillLimit = std::chrono::seconds(10);
constexpr size_t kMostFailures = 2;  // that a plain restart may be the answer to

}  // namespace

std::vector<FaultyNode> FaultyNodesOf(const proto::NodesChecked& checked,
                                      const WorkerGroup& group) {
  std::vector<FaultyNode> faulty;
  for (const auto& node : checked.faulty()) {
    if (group.contains(node.name()))
      faulty.push_back({NodeId(node.name()), node.evidence(), false});
  }
  // A gang does without a faulty connection if one of its ends leaves. That node is good.
  std::set<std::string> leaving;
  for (const FaultyNode& node : faulty) leaving.insert(node.node.value());
  for (const auto& link : checked.links()) {
    if (leaving.contains(link.first()) || leaving.contains(link.second())) continue;
    if (!group.contains(link.first()) || !group.contains(link.second())) continue;
    leaving.insert(link.second());
    faulty.push_back({NodeId(link.second()),
                      "its connection with " + link.first() + " is faulty: " + link.evidence(),
                      /*keeps_work=*/true});
  }
  return faulty;
}

std::string FindingsOf(const proto::NodesChecked& checked, const std::vector<FaultyNode>& faulty) {
  std::string found = checked.error();
  if (found.empty() && faulty.empty()) found = "no node is faulty";
  for (const auto& other : checked.others()) found += (found.empty() ? "" : "; ") + other;
  return found;
}

bool NodeChecks::IsCalledFor(const JobRecord& job) const {
  const proto::Fault& fault = job.faults.newest();
  if (context_.options.node_check_limit <= Duration(0)) return false;
  const bool hangs = job.faults.newest_class() == proto::FaultClass::kHang &&
                     fault.node().empty() && job.faults.FailuresWithoutStep() >= kMostFailures;
  if (!hangs && !job.numeric.check_due()) return false;
  if (job.group.size() < 2 || !WillReportSteps(job)) return false;
  return std::ranges::all_of(job.group.members(), [&](const Member& member) {
    const Node* node = context_.nodes.Find(member.node);
    // A test beside other jobs would disturb them, and they would disturb it.
    return node != nullptr && node->reachable() && node->used_milli <= job.accelerators_milli();
  });
}

bool NodeChecks::Await(JobRecord& job) {
  const uint32_t fault = job.faults.newest().number();
  if (!job.nodes_checked.was_begun(fault)) {
    if (!IsCalledFor(job)) return false;
    job.nodes_checked.Begin(fault);
    const std::string reason =
        job.numeric.check_due()
            ? "the replay of a numeric fault was clean, so that a device is suspected: its nodes "
              "are checked"
            : "it has hung " + std::to_string(job.faults.FailuresWithoutStep()) +
                  " times without a step in between, and nothing names the cause: its nodes are "
                  "checked";
    job.numeric.NoteChecked();
    context_.AddMessage(job.id(), proto::MessageNotification::WARNING, reason);
    context_.SetState(job, proto::RECOVERING, "its nodes are checked");
    context_.deadlines.Set(DeadlineKind::kNodeCheck, job.id(), context_.now + kKillLimit);
  }
  if (job.nodes_checked.stage() == InquiryStage::kEndsWorkers && job.group.all_closed()) Order(job);
  return job.nodes_checked.stage() != InquiryStage::kNone;
}

void NodeChecks::Order(JobRecord& job) {
  job.nodes_checked.Run();
  context_.deadlines.Set(DeadlineKind::kNodeCheck, job.id(),
                         context_.now + context_.options.node_check_limit);
  NodeCheckOrder& order = context_.out.checks.emplace_back();
  order.job = job.id();
  order.fault = job.faults.newest().number();
  for (const Member& member : job.group.members()) order.nodes.push_back(member.node);
}

void NodeChecks::OnNodesChecked(const proto::Event& event) {
  const auto& checked = event.nodes_checked();
  JobRecord* job = context_.jobs.Find(checked.job_id());
  if (job == nullptr || !job->live() || job->closing() || !job->faults.undecided()) return;
  if (job->nodes_checked.stage() != InquiryStage::kRuns) return;
  if (checked.fault() != job->faults.newest().number()) return;
  const std::vector<FaultyNode> faulty = FaultyNodesOf(checked, job->group);
  const std::string found = FindingsOf(checked, faulty);
  if (!found.empty()) {
    context_.AddMessage(job->id(), proto::MessageNotification::WARNING,
                        "the check of its nodes: " + found);
  }
  Conclude(*job, faulty);
}

void NodeChecks::OnOverdue(JobRecord& job) {
  if (!job.faults.undecided() || job.nodes_checked.stage() == InquiryStage::kNone) return;
  if (job.nodes_checked.stage() == InquiryStage::kRuns) {
    context_.AddMessage(job.id(), proto::MessageNotification::WARNING,
                        "the check of its nodes has not ended within " +
                            ToString(context_.options.node_check_limit));
    return Conclude(job, {});
  }
  std::vector<FaultyNode> faulty;
  for (const Member& member : job.group.members()) {
    if (member.closed) continue;
    faulty.push_back({member.node,
                      "its workers have not ended " + ToString(kKillLimit) + " after SIGKILL",
                      /*keeps_work=*/false});
  }
  // What stops most of them, such as a shared file system, is not a node's own.
  if (faulty.size() * 2 > job.group.size()) faulty.clear();
  if (faulty.empty()) {
    context_.AddMessage(job.id(), proto::MessageNotification::WARNING,
                        "its workers have not ended " + ToString(kKillLimit) +
                            " after SIGKILL on most nodes: they are not checked");
  }
  Conclude(job, faulty);
}

void NodeChecks::Conclude(JobRecord& job, const std::vector<FaultyNode>& faulty) {
  job.nodes_checked.End();
  context_.deadlines.Clear(DeadlineKind::kNodeCheck, job.id());
  if (!faulty.empty()) {
    job.faults.NameNode(faulty.front().node.value(), faulty.front().evidence);
    context_.AddFaultNotification(job, job.faults.newest());
  }
  if (!faulty.empty()) faults_.LeaveFaultyNodes(job, faulty);
  faults_.TryDecide(job);
}

void NodeChecks::ForgetAll() {
  for (auto& [id, job] : context_.jobs.all()) {
    if (job.nodes_checked.stage() == InquiryStage::kNone) continue;
    job.nodes_checked.Forget();
    context_.deadlines.Clear(DeadlineKind::kNodeCheck, id);
  }
}

}  // namespace longhaul::runtime::controller
