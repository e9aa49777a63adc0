#include "runtime/controller/handlers/absent_nodes.h"

#include <algorithm>

namespace longhaul::runtime::controller {
namespace {

// Agents try to connect at the latest after 1.5 s (service/agent/link/reconnect_pauses.h). When
// none has returned for this long, no other one is about to.
constexpr Duration kLastReturn = std::chrono::seconds(2);
constexpr Duration kLookAgain = std::chrono::milliseconds(250);
// A gang stands still when no step was done for so many times its slowest recent one.
constexpr int kMissedSteps = 3;

}  // namespace

void AbsentNodes::OnControllerStarted() {
  newest_return_ = context_.now;
  expected_until_ = context_.now + context_.options.rejoin_grace;
  for (const auto& [id, node] : context_.nodes.all()) {
    if (node.lost) continue;
    context_.deadlines.Set(DeadlineKind::kNodeGrace, id.value(),
                           std::min(context_.now + kLastReturn, expected_until_));
  }
}

bool AbsentNodes::AwaitLonger(const Node& node) {
  if (node.cut || context_.now >= expected_until_) return false;
  const Instant quiet = newest_return_ + kLastReturn;
  if (context_.now >= quiet && MostAreBack() && IsMissed(node)) return false;
  const Instant next = std::max(quiet, context_.now + kLookAgain);
  context_.deadlines.Set(DeadlineKind::kNodeGrace, node.id.value(),
                         std::min(next, expected_until_));
  return true;
}

// Otherwise the fault may be the controller's own network.
bool AbsentNodes::MostAreBack() const {
  size_t expected = 0, back = 0;
  for (const auto& [id, node] : context_.nodes.all()) {
    expected += node.lost ? 0 : 1;
    back += node.reachable() ? 1 : 0;
  }
  return 2 * back > expected;
}

bool AbsentNodes::IsMissed(const Node& node) const {
  return std::ranges::any_of(context_.jobs.all(), [&](const auto& entry) {
    const JobRecord& job = entry.second;
    if (!job.live() || job.closing() || !job.group.contains(node.id.value())) return false;
    if (!job.faults.undecided() && !StandsStill(job, node)) return false;
    return spares_.Count(job) > 0;
  });
}

bool AbsentNodes::StandsStill(const JobRecord& job, const Node& absent) const {
  if (job.life.state() != proto::RUNNING || !job.hang.has_learned()) return false;
  for (const Member& member : job.group.members()) {
    const Node* node = context_.nodes.Find(member.node);
    if (member.node != absent.id && (node == nullptr || !node->reachable())) return false;
  }
  const Duration patience = std::max(kLastReturn, kMissedSteps * job.hang.slowest_report());
  return context_.now - job.hang.last_progress() >= patience;
}

}  // namespace longhaul::runtime::controller
