#include "runtime/agent/worker_control.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "runtime/agent/worker_processes.h"

namespace longhaul::runtime::agent {

void WorkerControl::SetInterval(const proto::SetSnapshotInterval& command) {
  const JobId id(command.job_id());
  AgentJob* job = context_.FindJob(id);
  if (job == nullptr || command.epoch() < job->highest_epoch) return;
  job->highest_epoch = command.epoch();
  const auto told = job->intervals.find(command.epoch());
  if (told != job->intervals.end() && told->second == command.steps()) return;
  job->intervals = {{command.epoch(), command.steps()}};
  context_.effects.push_back(TellInterval{id, command.epoch(), command.steps()});
}

void WorkerControl::Probe(const proto::ProbeWorkers& command) {
  const JobId id(command.job_id());
  const AgentJob* job = context_.FindJob(id);
  if (job == nullptr || command.epoch() < job->highest_epoch) return;
  ProbeWorkersNow probe{id, command.epoch(), {}, command.resume_stopped()};
  const auto epoch = job->epochs.find(command.epoch());
  if (epoch != job->epochs.end()) {
    for (const auto& [rank, worker] : epoch->second.workers) {
      if (worker.state == Worker::State::kAlive) probe.ranks.push_back(rank);
    }
  }
  context_.effects.push_back(std::move(probe));
}

void WorkerControl::Take(const ProbedWorkers& fact) {
  const AgentJob* job = context_.FindJob(fact.job);
  if (job == nullptr || fact.epoch < job->highest_epoch) return;
  proto::Event event;
  proto::WorkersProbed& probed = *event.mutable_workers_probed();
  probed.set_job_id(fact.job.value());
  probed.set_epoch(fact.epoch);
  const auto epoch = job->epochs.find(fact.epoch);
  for (const proto::WorkersProbed::Worker& seen : fact.workers) {
    if (epoch == job->epochs.end() || !epoch->second.workers.contains(seen.rank())) continue;
    proto::WorkersProbed::Worker& worker = *probed.add_workers();
    worker = seen;
    worker.set_last_step(epoch->second.reports.last_step(seen.rank()));
    worker.set_phase(epoch->second.reports.phase(seen.rank()));
  }
  context_.Tell(std::move(event));
}

void WorkerControl::Inject(const proto::InjectFault& command) {
  const JobId id(command.job_id());
  AgentJob* job = context_.FindJob(id);
  if (job == nullptr || command.epoch() < job->highest_epoch) return;
  const auto epoch = job->epochs.find(command.epoch());
  if (epoch == job->epochs.end() || !epoch->second.alive()) return;
  const proto::PlannedFault& fault = command.fault();
  if (!job->injected.emplace(fault.kind(), fault.target(), fault.step()).second) return;

  if (fault.kind() == proto::PlannedFault::KILL_AGENT ||
      fault.kind() == proto::PlannedFault::KILL_NODE) {
    context_.effects.push_back(KillNode{fault.kind() == proto::PlannedFault::KILL_NODE});
    return;
  }
  const auto worker = epoch->second.workers.find(fault.target());
  if (worker == epoch->second.workers.end() || worker->second.state != Worker::State::kAlive) {
    return;
  }
  if (fault.kind() == proto::PlannedFault::KILL_WORKER) {
    // Its peers may fail, and all be told to end, before its own end is seen: it stays the cause.
    worker->second.killed = true;
    processes_.SignalOne(id, command.epoch(), fault.target(), SIGKILL);
  } else if (fault.kind() == proto::PlannedFault::STOP_WORKER) {
    processes_.SignalOne(id, command.epoch(), fault.target(), SIGSTOP);
    resumes_.push_back({context_.now + Duration(std::max<int64_t>(0, fault.duration_ns())),
                        {id, command.epoch(), fault.target()}});
  }
}

void WorkerControl::RunTimers() {
  const auto due =
      std::stable_partition(resumes_.begin(), resumes_.end(),
                            [this](const Resume& entry) { return entry.at > context_.now; });
  for (auto entry = due; entry != resumes_.end(); ++entry) {
    const Epoch* epoch = context_.FindEpoch(entry->worker);
    if (epoch == nullptr) continue;
    if (epoch->workers.at(entry->worker.rank).state != Worker::State::kAlive) continue;
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
