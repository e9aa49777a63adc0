#include <algorithm>
#include <csignal>
#include <utility>

#include "base/utf8.h"
#include "runtime/internal/agent_state.h"

namespace longhaul::runtime {

using internal::Epoch;
using Job = internal::AgentJob;
using internal::SnapshotId;
using internal::Worker;

void AgentCore::State::SignalOne(const JobId& id, uint64_t epoch, uint32_t rank, int signal) {
  effects_.push_back(SignalWorker{{id, epoch, rank}, signal});
}

void AgentCore::State::KillNow(const JobId& id, Epoch& epoch) {
  epoch.kill_at.reset();
  for (auto& [rank, worker] : epoch.workers) {
    if (worker.state == Worker::State::kGone || worker.killed) continue;
    worker.asked = true;
    worker.killed = true;
    if (worker.state == Worker::State::kAlive) {
      SignalOne(id, epoch.start->epoch(), rank, SIGKILL);
    }
  }
}

void AgentCore::State::Terminate(const JobId& id, Epoch& epoch, Duration grace) {
  if (!epoch.alive()) return;
  const Instant end = now_ + grace;
  if (epoch.terminated) {
    if (epoch.kill_at.has_value()) epoch.kill_at = std::min(*epoch.kill_at, end);
    return;
  }
  epoch.terminated = true;
  epoch.kill_at = end;
  for (auto& [rank, worker] : epoch.workers) {
    if (worker.state == Worker::State::kGone || worker.killed) continue;
    worker.asked = true;
    if (worker.state == Worker::State::kSpawning) {
      worker.killed = true;  // it has nothing to save yet
      continue;
    }
    SignalOne(id, epoch.start->epoch(), rank, SIGTERM);
    SignalOne(id, epoch.start->epoch(), rank, SIGCONT);  // a stopped one would not hear it
  }
}

void AgentCore::State::RunTimers() {
  for (auto& [id, job] : jobs_) {
    for (auto& [number, epoch] : job.epochs) {
      if (epoch.kill_at.has_value() && *epoch.kill_at <= now_) KillNow(id, epoch);
    }
  }
  const auto due =
      std::stable_partition(resumes_.begin(), resumes_.end(),
                            [this](const internal::Resume& entry) { return entry.at > now_; });
  for (auto entry = due; entry != resumes_.end(); ++entry) {
    const Epoch* epoch = FindEpoch(entry->worker);
    if (epoch == nullptr) continue;
    if (epoch->workers.at(entry->worker.rank).state != Worker::State::kAlive) continue;
    effects_.push_back(SignalWorker{entry->worker, SIGCONT});
  }
  resumes_.erase(due, resumes_.end());
}

void AgentCore::State::TellFailedStart(const std::string& job, uint64_t epoch,
                                       const std::string& reason, bool permanent) {
  wire::Event event;
  wire::WorkersFailedToStart& failed = *event.mutable_workers_failed_to_start();
  failed.set_job_id(job);
  failed.set_epoch(epoch);
  failed.set_reason(ToValidUtf8(reason));
  failed.set_permanent(permanent);
  Tell(std::move(event));
}

void AgentCore::State::Take(const WorkerForked& fact) {
  Epoch* epoch = FindEpoch(fact.worker);
  if (epoch == nullptr) return;
  const auto& [id, number, rank] = fact.worker;
  Worker& worker = epoch->workers.at(rank);
  if (worker.state != Worker::State::kSpawning) return;

  if (!fact.error.empty()) {
    const bool wanted = !epoch->failed && !epoch->doomed();
    worker.state = Worker::State::kGone;
    if (wanted) {
      TellFailedStart(id.value(), number, fact.error, fact.permanent);
    }
    epoch->failed = true;
    KillNow(id, *epoch);
    AfterEnd(id, number);
    return;
  }
  worker.state = Worker::State::kAlive;
  worker.pid = fact.pid;
  if (worker.killed) SignalOne(id, number, rank, SIGKILL);
  if (epoch->started_told || epoch->failed || epoch->doomed()) return;
  wire::Event event;
  wire::WorkersStarted& started = *event.mutable_workers_started();
  started.set_job_id(id.value());
  started.set_epoch(number);
  for (const auto& [other_rank, other] : epoch->workers) {
    if (other.pid == 0) return;  // not all have a process yet
    started.add_pids(other.pid);
  }
  epoch->started_told = true;
  Tell(std::move(event));
}

void AgentCore::State::Take(const WorkerGone& fact) {
  Epoch* epoch = FindEpoch(fact.worker);
  if (epoch == nullptr) return;
  Worker& worker = epoch->workers.at(fact.worker.rank);
  if (worker.state != Worker::State::kAlive) return;
  worker.state = Worker::State::kGone;

  wire::Event event;
  wire::WorkerExited& exited = *event.mutable_worker_exited();
  exited.set_job_id(fact.worker.job.value());
  exited.set_epoch(fact.worker.epoch);
  exited.set_rank(fact.worker.rank);
  exited.set_exit_code(fact.exit_code);
  exited.set_signal(fact.signal);
  exited.set_message(ToValidUtf8(fact.message));
  exited.set_error_at_ns(fact.error_at_ns);
  exited.set_asked(worker.asked);
  Tell(std::move(event));
  AfterEnd(fact.worker.job, fact.worker.epoch);
}

// A worker of `epoch` has ended (0: none in particular): closes what has closed, starts what has
// waited for it, and sees to the snapshots.
void AgentCore::State::AfterEnd(const JobId& id, uint64_t epoch_number) {
  Job& job = jobs_.at(id);
  const auto tell_closed = [this, &id, &job](uint64_t number) {
    job.closed_epoch = std::max(job.closed_epoch, number);
    wire::Event event;
    event.mutable_epoch_closed()->set_job_id(id.value());
    event.mutable_epoch_closed()->set_epoch(number);
    Tell(std::move(event));
  };
  const auto ended = job.epochs.find(epoch_number);
  if (ended != job.epochs.end() && !ended->second.alive()) {
    job.epochs.erase(ended);
    tell_closed(epoch_number);
    job.failed.reset();  // a last try: no later seal will come
    MaybePersist(id, job);
  }
  // Told to end an epoch that never had a worker here: say so, or the controller would wait.
  const bool still_there = !job.epochs.empty() && job.epochs.begin()->first <= job.killed_epoch;
  if (job.killed_epoch > job.closed_epoch && !still_there) tell_closed(job.killed_epoch);

  if (job.waiting != nullptr && !job.alive()) {
    const StartOrder start = std::exchange(job.waiting, nullptr);
    Spawn(id, job, start);
  }
  MaybeDrop(id);
}

void AgentCore::State::Take(const ShutDownAsked& fact) {
  shutting_down_ = true;
  for (auto& [id, job] : jobs_) {
    job.waiting = nullptr;
    for (auto& [number, epoch] : job.epochs) Terminate(id, epoch, fact.grace);
    MaybePersist(id, job);
  }
}

internal::Epoch* AgentCore::State::FindEpoch(const WorkerId& worker) {
  Job* job = FindJob(worker.job);
  if (job == nullptr) return nullptr;
  const auto epoch = job->epochs.find(worker.epoch);
  if (epoch == job->epochs.end()) return nullptr;
  return epoch->second.workers.contains(worker.rank) ? &epoch->second : nullptr;
}

internal::Epoch* AgentCore::State::FindSpeaking(const WorkerId& worker) {
  const Job* job = FindJob(worker.job);
  if (job == nullptr || worker.epoch < job->highest_epoch) return nullptr;
  return FindEpoch(worker);
}

void AgentCore::State::Take(const WorkerPhase& fact) {
  Epoch* epoch = FindSpeaking(fact.worker);
  if (epoch == nullptr) return;
  if (std::optional<wire::Event> event = epoch->reports.Phase(fact)) Tell(*std::move(event));
}

void AgentCore::State::Take(const WorkerStep& fact) {
  Epoch* epoch = FindSpeaking(fact.worker);
  if (epoch == nullptr) return;
  if (std::optional<wire::Event> event = epoch->reports.Step(fact)) Tell(*std::move(event));
}

void AgentCore::State::Take(const WorkerSealed& fact) {
  Epoch* epoch = FindSpeaking(fact.worker);
  if (epoch == nullptr) return;
  std::optional<wire::Event> event = epoch->reports.Sealed(fact);
  if (!event.has_value()) return;
  const bool poisoned = event->snapshot_sealed().poisoned();
  Tell(*std::move(event));
  if (poisoned) return;  // nobody shall have it
  Job& job = jobs_.at(fact.worker.job);
  NoteSealed(job, SnapshotId{fact.worker.epoch, fact.step}, epoch->start);
  MaybeCopy(fact.worker.job, job);
  MaybePersist(fact.worker.job, job);
}

void AgentCore::State::Take(const WorkerWaitsForSlot& fact) {
  if (FindSpeaking(fact.worker) == nullptr) return;
  wire::Event event;
  wire::WorkerWaits& waits = *event.mutable_worker_waits();
  waits.set_job_id(fact.worker.job.value());
  waits.set_epoch(fact.worker.epoch);
  waits.set_rank(fact.worker.rank);
  waits.set_step(fact.step);
  waits.set_waited_ns(fact.waited.count());
  waits.set_holders(ToValidUtf8(fact.holders));
  Tell(std::move(event));
}

void AgentCore::State::Take(const WorkerRestored& fact) {
  Epoch* epoch = FindSpeaking(fact.worker);
  if (epoch != nullptr) epoch->reports.Restored(fact);
}

void AgentCore::State::Take(const WorkerRestoreFailed& fact) {
  if (FindSpeaking(fact.worker) == nullptr) return;
  wire::Event event;
  wire::SnapshotFailed& failed = *event.mutable_snapshot_failed();
  failed.set_job_id(fact.worker.job.value());
  failed.set_epoch(fact.worker.epoch);
  failed.set_step(fact.step);
  failed.set_reason(ToValidUtf8(fact.reason));
  failed.set_while_restoring(!fact.served);
  failed.set_tier(fact.tier);
  for (const wire::Restore::Piece& piece : fact.bad) *failed.add_bad() = piece;
  failed.set_rank(fact.worker.rank);
  Tell(std::move(event));
}

void AgentCore::State::Take(const WorkerResultText& fact) {
  if (FindSpeaking(fact.worker) == nullptr) return;
  wire::Event event;
  wire::WorkerResult& result = *event.mutable_worker_result();
  result.set_job_id(fact.worker.job.value());
  result.set_epoch(fact.worker.epoch);
  result.set_rank(fact.worker.rank);
  result.set_json(ToValidUtf8(fact.json));
  Tell(std::move(event));
}

void AgentCore::State::Take(const JobReport& fact) { Tell(fact.event); }

}  // namespace longhaul::runtime
