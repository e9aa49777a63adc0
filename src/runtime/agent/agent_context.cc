#include "runtime/agent/agent_context.h"

#include <utility>

namespace longhaul::runtime::agent {

void AgentContext::TellAt(proto::Event event, Instant at) {
  if (event.at_ns() == 0) event.set_at_ns(ToNanoseconds(at));
  event.set_node(node.value());
  event.set_incarnation(incarnation);
  outbox.Add(std::move(event));
}

Epoch* AgentContext::FindEpoch(const WorkerId& worker) {
  AgentJob* job = FindJob(worker.job);
  if (job == nullptr) return nullptr;
  const auto epoch = job->epochs.find(worker.epoch);
  if (epoch == job->epochs.end()) return nullptr;
  return epoch->second.workers.contains(worker.rank) ? &epoch->second : nullptr;
}

Epoch* AgentContext::FindSpeaking(const WorkerId& worker) {
  const AgentJob* job = FindJob(worker.job);
  if (job == nullptr || worker.epoch < job->highest_epoch) return nullptr;
  return FindEpoch(worker);
}
}  // namespace longhaul::runtime::agent
