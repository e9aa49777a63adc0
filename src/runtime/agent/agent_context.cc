#include "runtime/agent/agent_context.h"

#include <utility>

namespace longhaul::runtime::agent {

AgentContext::AgentContext(NodeId own_node, uint64_t life, AgentFacts own_facts)
    : node(std::move(own_node)), incarnation(life), facts(std::move(own_facts)) {
  std::erase_if(facts.held, [this](const AgentFacts::HeldSnapshot& held) {
    if (held.copy) copies.Add(held.job, held.rank, {held.attempt, held.step});
    return held.copy;
  });
}

// Outbox::Add assigns the sequence number, so the order of these calls is the order in which the
// controller takes the events.
void AgentContext::ReportAt(proto::Event event, Instant at) {
  if (event.at_ns() == 0) event.set_at_ns(ToNanoseconds(at));
  event.set_node(node.value());
  event.set_incarnation(incarnation);
  outbox.Add(std::move(event));
}

void AgentContext::OpenStore(AgentJob& job, const proto::OpenStore& command) {
  // The built-in trainer has no Python, and a job of an older controller states the version.
  const proto::Workload& workload = command.workload();
  if (workload.command().empty() || !workload.torch_version().empty()) {
    job.torch_version = workload.torch_version();
  }
  const JobId id(command.job_id());
  const auto found = prepared.find(id);
  if (!job.torch_version.has_value() && found != prepared.end()) job.torch_version = found->second;
  if (job.torch_version.has_value()) {
    effects.push_back(OpenStoreAt{id, command.attempt(), command.world(), *job.torch_version});
    return;
  }
  if (!job.opening.has_value()) effects.push_back(FindTorch{id, workload});
  job.opening = command;
}

Attempt* AgentContext::FindAttempt(const WorkerId& worker) {
  AgentJob* job = FindJob(worker.job);
  if (job == nullptr) return nullptr;
  const auto attempt = job->attempts.find(worker.attempt);
  if (attempt == job->attempts.end()) return nullptr;
  return attempt->second.workers.contains(worker.rank) ? &attempt->second : nullptr;
}

// A worker of a lower attempt may still run while it is being killed. What it reports belongs to a
// state that the next attempt does not continue.
Attempt* AgentContext::FindSpeaking(const WorkerId& worker) {
  const AgentJob* job = FindJob(worker.job);
  if (job == nullptr || worker.attempt < job->highest_attempt) return nullptr;
  return FindAttempt(worker);
}
}  // namespace longhaul::runtime::agent
