#include "runtime/agent/worker_control.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "runtime/agent/worker_processes.h"

namespace longhaul::runtime::agent {
namespace {

constexpr Duration kShortestSampling = std::chrono::milliseconds(100);
constexpr Duration kLongestSampling = std::chrono::minutes(10);

}  // namespace

void WorkerControl::SetInterval(const proto::SetSnapshotInterval& command) {
  const JobId id(command.job_id());
  AgentJob* job = context_.FindJob(id);
  if (job == nullptr || command.attempt() < job->highest_attempt) return;
  job->highest_attempt = command.attempt();
  // The controller repeats commands after a reconnect. The workers receive each change once.
  const auto sent = job->intervals.find(command.attempt());
  if (sent != job->intervals.end() && sent->second == command.steps()) return;
  job->intervals = {{command.attempt(), command.steps()}};
  context_.effects.push_back(SendInterval{id, command.attempt(), command.steps()});
}

void WorkerControl::Probe(const proto::ProbeWorkers& command) {
  const JobId id(command.job_id());
  const AgentJob* job = context_.FindJob(id);
  if (job == nullptr || command.attempt() < job->highest_attempt) return;
  context_.effects.push_back(ProbeWorkersNow{id, command.attempt(),
                                             AliveRanks(*job, command.attempt()),
                                             command.resume_stopped(), command.with_stacks()});
}

void WorkerControl::Sample(const proto::SampleWorkers& command) {
  const JobId id(command.job_id());
  const AgentJob* job = context_.FindJob(id);
  if (job == nullptr || command.attempt() < job->highest_attempt) return;
  const Duration period =
      std::clamp<Duration>(Duration(command.period_ns()), kShortestSampling, kLongestSampling);
  context_.effects.push_back(
      SampleWorkersNow{id, command.attempt(), AliveRanks(*job, command.attempt()), period});
}

std::vector<uint32_t> WorkerControl::AliveRanks(const AgentJob& job, uint64_t attempt) {
  std::vector<uint32_t> ranks;
  const auto found = job.attempts.find(attempt);
  if (found == job.attempts.end()) return ranks;
  for (const auto& [rank, worker] : found->second.workers) {
    if (worker.state == Worker::State::kAlive) ranks.push_back(rank);
  }
  return ranks;
}

void WorkerControl::Take(const SampledWorkers& fact) {
  const AgentJob* job = context_.FindJob(fact.job);
  if (job == nullptr || fact.attempt < job->highest_attempt) return;
  proto::Event event;
  proto::WorkersSampled& sampled = *event.mutable_workers_sampled();
  sampled = fact.found;
  sampled.set_job_id(fact.job.value());
  sampled.set_attempt(fact.attempt);
  context_.Report(std::move(event));
}

void WorkerControl::Take(const ProbedWorkers& fact) {
  const AgentJob* job = context_.FindJob(fact.job);
  if (job == nullptr || fact.attempt < job->highest_attempt) return;
  proto::Event event;
  proto::WorkersProbed& probed = *event.mutable_workers_probed();
  probed.set_job_id(fact.job.value());
  probed.set_attempt(fact.attempt);
  probed.set_with_stacks(fact.with_stacks);
  probed.set_stacks_file(fact.stacks_file);
  const auto attempt = job->attempts.find(fact.attempt);
  for (const proto::WorkersProbed::Worker& seen : fact.workers) {
    if (attempt == job->attempts.end() || !attempt->second.workers.contains(seen.rank())) continue;
    proto::WorkersProbed::Worker& worker = *probed.add_workers();
    worker = seen;
    worker.set_last_step(attempt->second.reports.last_step(seen.rank()));
    worker.set_phase(attempt->second.reports.phase(seen.rank()));
  }
  context_.Report(std::move(event));
}

void WorkerControl::Inject(const proto::InjectFault& command) {
  const JobId id(command.job_id());
  AgentJob* job = context_.FindJob(id);
  if (job == nullptr || command.attempt() < job->highest_attempt) return;
  const auto attempt = job->attempts.find(command.attempt());
  if (attempt == job->attempts.end() || !attempt->second.alive()) return;
  const proto::PlannedFault& fault = command.fault();
  // A repeated command must not kill a second worker.
  if (!job->injected.emplace(fault.kind(), fault.target(), fault.step()).second) return;

  if (fault.kind() == proto::PlannedFault::KILL_AGENT ||
      fault.kind() == proto::PlannedFault::KILL_NODE) {
    context_.effects.push_back(KillNode{fault.kind() == proto::PlannedFault::KILL_NODE});
    return;
  }
  const auto worker = attempt->second.workers.find(fault.target());
  if (worker == attempt->second.workers.end() || worker->second.state != Worker::State::kAlive) {
    return;
  }
  if (fault.kind() == proto::PlannedFault::KILL_WORKER) {
    // Its peers may fail, and all may be stopped, before its own end is seen: it stays the cause.
    worker->second.killed = true;
    processes_.SignalOne(id, command.attempt(), fault.target(), SIGKILL);
  } else if (fault.kind() == proto::PlannedFault::STOP_WORKER) {
    processes_.SignalOne(id, command.attempt(), fault.target(), SIGSTOP);
    resumes_.push_back({context_.now + Duration(std::max<int64_t>(0, fault.duration_ns())),
                        {id, command.attempt(), fault.target()}});
  }
}

bool WorkerControl::HasStopped(const WorkerId& worker) const {
  return std::any_of(resumes_.begin(), resumes_.end(),
                     [&worker](const Resume& entry) { return entry.worker == worker; });
}

// The partition is stable, so that several resumes that are due at once are carried out in the
// order of their commands in each replay.
void WorkerControl::RunTimers() {
  const auto due =
      std::stable_partition(resumes_.begin(), resumes_.end(),
                            [this](const Resume& entry) { return entry.at > context_.now; });
  for (auto entry = due; entry != resumes_.end(); ++entry) {
    const Attempt* attempt = context_.FindAttempt(entry->worker);
    if (attempt == nullptr) continue;
    if (attempt->workers.at(entry->worker.rank).state != Worker::State::kAlive) continue;
    context_.effects.push_back(SignalWorker{entry->worker, SIGCONT});
  }
  resumes_.erase(due, resumes_.end());
}

std::optional<Instant> WorkerControl::NextDeadline() const {
  std::optional<Instant> next;
  for (const Resume& entry : resumes_) next = std::min(next.value_or(entry.at), entry.at);
  return next;
}

}  // namespace longhaul::runtime::agent
