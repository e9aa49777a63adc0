#include "runtime/agent/worker_processes.h"

#include <algorithm>
#include <csignal>
#include <memory>
#include <utility>

#include "base/utf8.h"
#include "runtime/agent/node_snapshots.h"

namespace longhaul::runtime::agent {

namespace {

constexpr size_t kForgottenJobs = 1024;  // whose late commands are still known to be late

}  // namespace

void WorkerProcesses::OpenStore(const proto::OpenStore& command) {
  const JobId id(command.job_id());
  if (context_.IsForgotten(id, command.epoch()) || context_.shutting_down) return;
  AgentJob& job = context_.jobs[id];
  if (command.epoch() < job.highest_epoch || command.epoch() <= job.opened_store) return;
  if (command.epoch() > job.forget_epoch) job.forget = false;  // it is back
  job.highest_epoch = command.epoch();
  job.opened_store = command.epoch();
  context_.effects.push_back(CloseStores{id, command.epoch()});
  job.fetching.reset();
  if (command.fetch().tier() == proto::Restore::TIER_SHARED) {
    job.fetching = command;
    proto::StartWorkers start;
    start.set_job_id(id.value());
    *start.mutable_job() = command.job();
    context_.effects.push_back(
        FetchBack{id, command.epoch(), command.fetch(),
                  std::make_shared<const proto::StartWorkers>(std::move(start))});
    return;
  }
  context_.effects.push_back(
      OpenStoreAt{id, command.epoch(), command.world(), command.torch_version()});
}

void WorkerProcesses::Take(const StoreListening& fact) {
  const AgentJob* job = context_.FindJob(fact.job);
  if (job == nullptr || fact.epoch < job->highest_epoch) return;
  if (!fact.error.empty()) {
    TellFailedStart(fact.job.value(), fact.epoch, "cannot open the store: " + fact.error, false);
    return;
  }
  proto::Event event;
  proto::StoreOpened& opened = *event.mutable_store_opened();
  opened.set_job_id(fact.job.value());
  opened.set_epoch(fact.epoch);
  opened.set_port(fact.port);
  context_.Tell(std::move(event));
}

void WorkerProcesses::StartWorkers(const proto::StartWorkers& command) {
  const JobId id(command.job_id());
  if (context_.IsForgotten(id, command.epoch()) || context_.shutting_down) return;
  AgentJob& job = context_.jobs[id];
  const uint64_t epoch = command.epoch();
  if (epoch < job.highest_epoch || epoch <= job.started_epoch || epoch <= job.killed_epoch) return;
  if (epoch > job.forget_epoch) job.forget = false;  // it is back
  job.highest_epoch = epoch;
  job.started_epoch = epoch;
  job.waiting = nullptr;  // of a lower epoch, never started: overtaken
  for (auto& [number, lower] : job.epochs) KillNow(id, lower);

  const std::string nonsense = WhyStartMakesNoSense(command, context_.facts.slots);
  if (!nonsense.empty()) {
    TellFailedStart(id.value(), epoch, nonsense, true);
    job.killed_epoch = epoch;
    AfterEnd(id, 0);
    return;
  }
  auto start = std::make_shared<const proto::StartWorkers>(command);
  // The gang goes back to the restored step: what was sealed beyond it is not of its history.
  const uint64_t from = command.restore().step();
  if (job.newest.has_value() && job.newest->step > from) job.newest.reset();
  if (job.told.has_value() && job.told->step > from) job.told.reset();
  std::erase_if(job.sealed, [from](const auto& entry) { return entry.first.step > from; });
  snapshots_.TakeHeld(id, job, command);
  job.latest = start;
  job.injected.clear();
  // The peer may be another one now: it gets what this node still holds, at once.
  job.copied.reset();
  snapshots_.MaybeCopy(id, job);
  snapshots_.MaybePersist(id, job);
  if (job.alive()) {
    job.waiting = std::move(start);
  } else {
    Spawn(id, job, start);
  }
}

void WorkerProcesses::Spawn(const JobId& id, AgentJob& job, const StartOrder& start) {
  const uint64_t number = start->epoch();
  Epoch epoch{
      start,        {},          RankReports(id, number, start->first_rank(), start->local_ranks()),
      false,        false,       false,
      std::nullopt, std::nullopt};
  for (uint32_t i = 0; i < start->local_ranks(); ++i) {
    const uint32_t rank = start->first_rank() + i;
    epoch.workers.emplace(rank, Worker{});
    context_.effects.push_back(SpawnWorker{{id, number, rank}, start});
  }
  job.epochs.emplace(number, std::move(epoch));
}

void WorkerProcesses::KillWorkers(const proto::KillWorkers& command) {
  const JobId id(command.job_id());
  if (context_.IsForgotten(id, command.epoch())) return;
  AgentJob& job = context_.jobs[id];
  job.highest_epoch = std::max(job.highest_epoch, command.epoch());
  job.killed_epoch = std::max(job.killed_epoch, command.epoch());
  if (job.waiting != nullptr && job.waiting->epoch() <= command.epoch()) job.waiting = nullptr;
  const Duration grace(std::max<int64_t>(0, command.grace_ns()));
  for (auto& [number, epoch] : job.epochs) {
    if (number > command.epoch()) break;
    if (grace == Duration(0)) {
      KillNow(id, epoch);
    } else {
      Terminate(id, epoch, grace);
    }
  }
  AfterEnd(id, 0);
}

void WorkerProcesses::Forget(const proto::ForgetJob& command) {
  const JobId id(command.job_id());
  const bool over = command.epoch() == 0;
  AgentJob* job = context_.FindJob(id);
  if (job != nullptr && !over && job->highest_epoch > command.epoch()) return;  // it is back
  const auto is_of_job = [&id](const auto& each) { return each.job == id; };
  const bool held = std::erase_if(context_.facts.held, is_of_job) > 0;
  if (job == nullptr) {
    if (held) context_.effects.push_back(DropJob{id});
    return;
  }
  job->forget = true;
  job->forget_epoch = over ? UINT64_MAX : command.epoch();
  job->waiting = nullptr;
  job->newest.reset();
  job->told.reset();
  job->sealed.clear();
  for (auto& [number, epoch] : job->epochs) KillNow(id, epoch);
  MaybeDrop(id);
}

void WorkerProcesses::MaybeDrop(const JobId& id) {
  const AgentJob* job = context_.FindJob(id);
  if (job == nullptr || !job->forget || job->alive()) return;
  if (job->persisting.has_value() || job->committing.has_value()) return;
  context_.effects.push_back(CloseStores{id, UINT64_MAX});
  context_.effects.push_back(DropJob{id});
  const uint64_t until = job->forget_epoch;
  context_.jobs.erase(id);
  context_.forgotten.emplace_back(id, until);
  if (context_.forgotten.size() > kForgottenJobs) context_.forgotten.pop_front();
}

void WorkerProcesses::SignalOne(const JobId& id, uint64_t epoch, uint32_t rank, int signal) {
  context_.effects.push_back(SignalWorker{{id, epoch, rank}, signal});
}

void WorkerProcesses::KillNow(const JobId& id, Epoch& epoch) {
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

void WorkerProcesses::Terminate(const JobId& id, Epoch& epoch, Duration grace) {
  if (!epoch.alive()) return;
  const Instant end = context_.now + grace;
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

void WorkerProcesses::RunTimers() {
  for (auto& [id, job] : context_.jobs) {
    for (auto& [number, epoch] : job.epochs) {
      if (epoch.kill_at.has_value() && *epoch.kill_at <= context_.now) KillNow(id, epoch);
    }
  }
}

void WorkerProcesses::TellFailedStart(const std::string& job, uint64_t epoch,
                                      const std::string& reason, bool permanent) {
  proto::Event event;
  proto::WorkersFailedToStart& failed = *event.mutable_workers_failed_to_start();
  failed.set_job_id(job);
  failed.set_epoch(epoch);
  failed.set_reason(ToValidUtf8(reason));
  failed.set_permanent(permanent);
  context_.Tell(std::move(event));
}

void WorkerProcesses::Take(const WorkerForked& fact) {
  Epoch* epoch = context_.FindEpoch(fact.worker);
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
  proto::Event event;
  proto::WorkersStarted& started = *event.mutable_workers_started();
  started.set_job_id(id.value());
  started.set_epoch(number);
  for (const auto& [other_rank, other] : epoch->workers) {
    if (other.pid == 0) return;  // not all have a process yet
    started.add_pids(other.pid);
  }
  epoch->started_told = true;
  context_.Tell(std::move(event));
}

void WorkerProcesses::Take(const WorkerGone& fact) {
  Epoch* epoch = context_.FindEpoch(fact.worker);
  if (epoch == nullptr) return;
  Worker& worker = epoch->workers.at(fact.worker.rank);
  if (worker.state != Worker::State::kAlive) return;
  worker.state = Worker::State::kGone;

  proto::Event event;
  proto::WorkerExited& exited = *event.mutable_worker_exited();
  exited.set_job_id(fact.worker.job.value());
  exited.set_epoch(fact.worker.epoch);
  exited.set_rank(fact.worker.rank);
  exited.set_exit_code(fact.exit_code);
  exited.set_signal(fact.signal);
  exited.set_message(ToValidUtf8(fact.message));
  exited.set_error_at_ns(fact.error_at_ns);
  exited.set_asked(worker.asked);
  context_.Tell(std::move(event));
  AfterEnd(fact.worker.job, fact.worker.epoch);
}

// A worker of `epoch` has ended (0: none in particular): closes what has closed, starts what has
// waited for it, and sees to the snapshots.
void WorkerProcesses::AfterEnd(const JobId& id, uint64_t epoch_number) {
  AgentJob& job = context_.jobs.at(id);
  const auto tell_closed = [this, &id, &job](uint64_t number) {
    job.closed_epoch = std::max(job.closed_epoch, number);
    proto::Event event;
    event.mutable_epoch_closed()->set_job_id(id.value());
    event.mutable_epoch_closed()->set_epoch(number);
    context_.Tell(std::move(event));
  };
  const auto ended = job.epochs.find(epoch_number);
  if (ended != job.epochs.end() && !ended->second.alive()) {
    job.epochs.erase(ended);
    tell_closed(epoch_number);
    // A last try: no later snapshot will come.
    std::erase_if(job.writes, [](const auto& write) { return !write.second.saved; });
    snapshots_.MaybePersist(id, job);
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

void WorkerProcesses::Take(const ShutDownAsked& fact) {
  context_.shutting_down = true;
  context_.cluster_ended = fact.cluster_ended;
  for (auto& [id, job] : context_.jobs) {
    job.waiting = nullptr;
    for (auto& [number, epoch] : job.epochs) Terminate(id, epoch, fact.grace);
    snapshots_.MaybePersist(id, job);
  }
}

}  // namespace longhaul::runtime::agent
