#include "runtime/agent/agent_context.h"

#include <utility>

namespace longhaul::runtime::agent {

void AgentContext::ReportAt(proto::Event event, Instant at) {
  if (event.at_ns() == 0) event.set_at_ns(ToNanoseconds(at));
  event.set_node(node.value());
  event.set_incarnation(incarnation);
  outbox.Add(std::move(event));
}

Attempt* AgentContext::FindAttempt(const WorkerId& worker) {
  AgentJob* job = FindJob(worker.job);
  if (job == nullptr) return nullptr;
  const auto attempt = job->attempts.find(worker.attempt);
  if (attempt == job->attempts.end()) return nullptr;
  return attempt->second.workers.contains(worker.rank) ? &attempt->second : nullptr;
}

Attempt* AgentContext::FindSpeaking(const WorkerId& worker) {
  const AgentJob* job = FindJob(worker.job);
  if (job == nullptr || worker.attempt < job->highest_attempt) return nullptr;
  return FindAttempt(worker);
}
}  // namespace longhaul::runtime::agent
