#include "runtime/controller/handlers/spare_nodes.h"

#include <algorithm>
#include <utility>

#include "runtime/controller/handlers/attempt_starter.h"

namespace longhaul::runtime::controller {
namespace {

// The second node is for a second loss at the same time.
constexpr size_t kNodesOfAJob = 2;
// A fork server with PyTorch has about 300 MB.
constexpr size_t kJobsOfANode = 4;

}  // namespace

size_t SpareNodes::Count(const JobRecord& job) const {
  return static_cast<size_t>(std::ranges::count_if(IdleNodes(), [&](const Node* node) {
    return Suits(*node, job) &&
           context_.scheduler.ConditionOf(node->id.value()) == spec::NodeCondition::kReady;
  }));
}

void SpareNodes::OnAgentJoined(const NodeId& node) {
  if (sent_.erase(node) > 0) joined_.insert(node);
}

void SpareNodes::Settle() {
  if (seen_nodes_ == context_.nodes.changes() && seen_jobs_ == context_.active_changes) return;
  seen_nodes_ = context_.nodes.changes();
  seen_jobs_ = context_.active_changes;
  if (context_.active.empty() && sent_.empty() && joined_.empty()) return;
  std::map<NodeId, Jobs> wanted = Wanted();
  for (const auto& [node, jobs] : sent_) {
    if (wanted.contains(node)) continue;
    if (context_.nodes.at(node).reachable()) {
      SendList(node, {});
    } else {
      wanted.emplace(node, jobs);  // it gets its new list when it joins again
    }
  }
  for (const NodeId& node : std::exchange(joined_, {})) {
    if (!wanted.contains(node)) SendList(node, {});
  }
  for (const auto& [node, jobs] : wanted) {
    const auto sent = sent_.find(node);
    if (sent == sent_.end() || sent->second != jobs) SendList(node, jobs);
  }
  sent_ = std::move(wanted);
}

std::vector<const Node*> SpareNodes::IdleNodes() const {
  std::vector<const Node*> idle, suspect;
  for (const auto& [id, node] : context_.nodes.all()) {
    if (!node.reachable() || node.cordoned || node.used_milli > 0) continue;
    if (!context_.scheduler.ReservationsOn(id.value()).empty()) continue;
    const spec::NodeCondition condition = context_.scheduler.ConditionOf(id.value());
    if (condition == spec::NodeCondition::kReady) idle.push_back(&node);
    if (condition == spec::NodeCondition::kSuspect) suspect.push_back(&node);
  }
  idle.insert(idle.end(), suspect.begin(), suspect.end());
  return idle;
}

bool SpareNodes::SharesHost(const Node& node, const JobRecord& job) const {
  const std::string& host = node.facts.host();
  if (host.empty()) return false;
  const auto& members = job.group.members();
  return std::any_of(members.begin(), members.end(), [&](const Member& member) {
    const Node* own = context_.nodes.Find(member.node);
    return own != nullptr && own->facts.host() == host;
  });
}

bool SpareNodes::Suits(const Node& node, const JobRecord& job) const {
  const scheduling::DeclaredCluster& cluster = context_.scheduler.cluster();
  return node.facts.slots() >= job.local() &&
         cluster.ModelOf(node.id.value()) == cluster.ModelOf(job.group.member(0).node.value());
}

void SpareNodes::KeepMembers(const JobRecord& job, std::map<NodeId, Jobs>& wanted) const {
  for (const auto& [node, jobs] : sent_) {
    if (jobs.contains(job.id()) && job.group.contains(node.value())) wanted[node].insert(job.id());
  }
}

std::map<NodeId, SpareNodes::Jobs> SpareNodes::Wanted() const {
  std::map<NodeId, Jobs> wanted;
  const std::vector<const Node*> idle = IdleNodes();
  const JobTable& jobs = context_.jobs;
  for (const std::string& id : context_.active) {
    const JobRecord& job = jobs.at(id);
    if (job.group.empty() || job.closing() || job.placement.leaving()) continue;
    KeepMembers(job, wanted);
    size_t found = 0;
    for (const Node* node : idle) {
      if (found == kNodesOfAJob) break;
      if (!Suits(*node, job) || SharesHost(*node, job)) continue;
      Jobs& list = wanted[node->id];
      if (list.size() == kJobsOfANode) continue;
      list.insert(id);
      ++found;
    }
  }
  std::erase_if(wanted, [](const auto& entry) { return entry.second.empty(); });
  return wanted;
}

void SpareNodes::SendList(const NodeId& node, const Jobs& jobs) {
  proto::Command command;
  auto* prepare = command.mutable_prepare_jobs();
  for (const std::string& id : jobs) {
    const JobTable& table = context_.jobs;
    *prepare->add_starts() = starter_.StartOf(table.at(id), 0);
  }
  context_.Send(node, std::move(command));
}

}  // namespace longhaul::runtime::controller
