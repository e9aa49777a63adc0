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
// A worker that computes or hangs for longer is killed, and its replacement is forked.
constexpr Duration kLeaveLimit = std::chrono::seconds(2);
// A job that fails for good is forgotten at once. This is for one that has lost its place.
constexpr Duration kKeepLimit = std::chrono::seconds(30);

}  // namespace

void WorkerProcesses::OpenStore(const proto::OpenStore& command) {
  const JobId id(command.job_id());
  if (context_.IsForgotten(id, command.attempt()) || context_.shutting_down) return;
  AgentJob& job = context_.jobs[id];
  // Late or repeated. Opening a second store for the same attempt would give its workers two
  // different rendezvous.
  if (command.attempt() < job.highest_attempt || command.attempt() <= job.opened_store) return;
  if (command.attempt() > job.forget_attempt) job.forget = false;  // it is back
  job.highest_attempt = command.attempt();
  job.opened_store = command.attempt();
  // Stores of lower attempts: workers of an earlier attempt that still run must not meet those of
  // this one.
  context_.effects.push_back(CloseStores{id, command.attempt()});
  job.fetching.reset();
  if (command.fetch().tier() == proto::Restore::TIER_SHARED) {
    job.fetching = command;
    proto::StartWorkers start;
    start.set_job_id(id.value());
    *start.mutable_job() = command.job();
    context_.effects.push_back(
        FetchBack{id, command.attempt(), command.fetch(),
                  std::make_shared<const proto::StartWorkers>(std::move(start))});
    return;
  }
  context_.OpenStore(job, command);
}

void WorkerProcesses::Take(const TorchFound& fact) {
  const auto prepared = context_.prepared.find(fact.job);
  if (prepared != context_.prepared.end()) prepared->second = fact.version;
  AgentJob* job = context_.FindJob(fact.job);
  if (job == nullptr || job->torch_version.has_value()) return;
  job->torch_version = fact.version;
  // The newest attempt's: it may have replaced the one for which the version was looked for.
  const auto command = std::exchange(job->opening, std::nullopt);
  if (!command.has_value() || context_.shutting_down) return;
  if (command->attempt() == job->highest_attempt) context_.OpenStore(*job, *command);
}

void WorkerProcesses::Take(const StoreListening& fact) {
  const AgentJob* job = context_.FindJob(fact.job);
  if (job == nullptr || fact.attempt < job->highest_attempt) return;
  if (!fact.error.empty()) {
    ReportFailedStart(fact.job.value(), fact.attempt, "cannot open the store: " + fact.error,
                      false);
    return;
  }
  proto::Event event;
  proto::StoreOpened& opened = *event.mutable_store_opened();
  opened.set_job_id(fact.job.value());
  opened.set_attempt(fact.attempt);
  opened.set_port(fact.port);
  opened.set_torch_version(job->torch_version.value_or(""));
  context_.Report(std::move(event));
}

void WorkerProcesses::StartWorkers(const proto::StartWorkers& command) {
  const JobId id(command.job_id());
  if (context_.IsForgotten(id, command.attempt()) || context_.shutting_down) return;
  AgentJob& job = context_.jobs[id];
  const uint64_t attempt = command.attempt();
  // Commands may arrive late or twice. An attempt that has been killed is never started, not even
  // when the start arrives after the kill.
  if (attempt < job.highest_attempt || attempt <= job.started_attempt ||
      attempt <= job.killed_attempt)
    return;
  if (attempt > job.forget_attempt) job.forget = false;  // it is back
  job.highest_attempt = attempt;
  job.started_attempt = attempt;
  job.waiting = nullptr;  // of a lower attempt, never started: overtaken
  ReleaseUpTo(id, job, attempt - 1);
  if (context_.FindJob(id) == nullptr) return;

  const std::string nonsense = WhyStartMakesNoSense(command, context_.facts.slots);
  if (!nonsense.empty()) {
    ReportFailedStart(id.value(), attempt, nonsense, true);
    job.killed_attempt = attempt;
    AfterEnd(id, 0);
    return;
  }
  auto start = std::make_shared<const proto::StartWorkers>(command);
  // The gang goes back to the restored step: what was sealed beyond it is not of its history.
  const uint64_t from = command.restore().step();
  if (job.newest.has_value() && job.newest->step > from) job.newest.reset();
  if (job.ordered.has_value() && job.ordered->step > from) job.ordered.reset();
  const size_t above =
      std::erase_if(job.sealed, [from](const auto& entry) { return entry.first.step > from; });
  // Void snapshots still have their slots of the arena, and a state from elsewhere may replace it.
  const bool from_memory = command.restore().tier() == proto::Restore::TIER_MEMORY;
  if (above > 0 || !from_memory) job.memory_since = attempt;
  snapshots_.TakeHeld(id, job, command);
  job.latest = start;
  job.injected.clear();
  // The peer may be another one now: it gets what this node still holds, at once.
  job.copied.reset();
  snapshots_.MaybeCopy(id, job);
  snapshots_.MaybePersist(id, job);
  // Workers of a lower attempt still exist. The new ones start when the last of them has been
  // reaped (AfterEnd), because two attempts at a time would write the same arenas.
  if (job.alive()) {
    job.waiting = std::move(start);
  } else {
    Spawn(id, job, start);
  }
}

void WorkerProcesses::Spawn(const JobId& id, AgentJob& job, const StartOrder& start) {
  const uint64_t number = start->attempt();
  Attempt attempt{
      start,        {},          RankReports(id, number, start->first_rank(), start->local_ranks()),
      false,        false,       false,
      std::nullopt, std::nullopt};
  for (uint32_t i = 0; i < start->local_ranks(); ++i) {
    const uint32_t rank = start->first_rank() + i;
    attempt.workers.emplace(rank, Worker{});
    // By local rank, because a process keeps the devices that it uses.
    const auto kept = job.kept.find(i);
    if (kept == job.kept.end() || start->restore().tier() == proto::Restore::TIER_PEER) {
      context_.effects.push_back(SpawnWorker{{id, number, rank}, start});
      continue;
    }
    context_.effects.push_back(ContinueWorker{kept->second.worker, {id, number, rank}, start});
    job.kept.erase(kept);
  }
  EndKept(job);  // those that are not needed
  job.attempts.emplace(number, std::move(attempt));
}

// Works for attempts that this agent has never seen, too: they are noted as killed, so that a start
// that is still on its way has no effect, and AfterEnd reports them as closed.
void WorkerProcesses::KillWorkers(const proto::KillWorkers& command) {
  const JobId id(command.job_id());
  if (context_.IsForgotten(id, command.attempt())) return;
  AgentJob& job = context_.jobs[id];
  job.highest_attempt = std::max(job.highest_attempt, command.attempt());
  job.killed_attempt = std::max(job.killed_attempt, command.attempt());
  if (job.waiting != nullptr && job.waiting->attempt() <= command.attempt()) job.waiting = nullptr;
  const Duration grace(std::max<int64_t>(0, command.grace_ns()));
  // An attempt that failed has no grace.
  if (grace == Duration(0)) {
    ReleaseUpTo(id, job, command.attempt());
  } else {
    EndKept(job);
    for (auto& [number, attempt] : job.attempts) {
      if (number <= command.attempt()) Terminate(id, attempt, grace);
    }
  }
  if (context_.FindJob(id) != nullptr) AfterEnd(id, 0);
}

// An attempt of 0 ends the job for good. Otherwise the job has only left this node, and a start
// with a higher attempt brings it back.
void WorkerProcesses::Forget(const proto::ForgetJob& command) {
  const JobId id(command.job_id());
  const bool over = command.attempt() == 0;
  AgentJob* job = context_.FindJob(id);
  if (job != nullptr && !over && job->highest_attempt > command.attempt()) return;  // it is back
  const auto is_of_job = [&id](const auto& each) { return each.job == id; };
  const bool held = std::erase_if(context_.facts.held, is_of_job) > 0 || context_.copies.Has(id);
  if (job == nullptr) {
    context_.copies.Drop(id);
    if (held) context_.effects.push_back(DropJob{id});
    return;
  }
  job->forget = true;
  job->forget_attempt = over ? UINT64_MAX : command.attempt();
  job->waiting = nullptr;
  job->newest.reset();
  job->ordered.reset();
  job->sealed.clear();
  for (auto& [number, attempt] : job->attempts) KillNow(id, attempt);
  EndKept(*job);
  MaybeDrop(id);
}

// Jobs with workers here have their fork servers anyway, and DropJob ends those.
void WorkerProcesses::Prepare(const proto::PrepareJobs& command) {
  if (context_.shutting_down) return;
  const auto before = std::exchange(context_.prepared, {});
  for (const proto::StartWorkers& start : command.starts()) {
    if (start.job_id().empty()) continue;
    if (!WhyStartMakesNoSense(start, context_.facts.slots).empty()) continue;
    const JobId id(start.job_id());
    const auto known = before.find(id);
    const auto [entry, is_new] = context_.prepared.try_emplace(id);
    if (known != before.end()) entry->second = known->second;
    if (known != before.end() || !is_new || context_.FindJob(id) != nullptr) continue;
    const auto order = std::make_shared<const proto::StartWorkers>(start);
    context_.effects.push_back(PrepareFork{id, order});
    const proto::Workload& workload = order->job().workload();
    if (!workload.command().empty()) context_.effects.push_back(FindTorch{id, workload});
  }
  for (const auto& [id, version] : before) {
    if (context_.prepared.contains(id) || context_.FindJob(id) != nullptr) continue;
    context_.effects.push_back(EndFork{id});
  }
}

// Blocked until writes have ended: a write reads the arenas that DropJob releases. Late commands
// for the job are recognised by the list of forgotten jobs, whose length is bounded.
void WorkerProcesses::MaybeDrop(const JobId& id) {
  const AgentJob* job = context_.FindJob(id);
  if (job == nullptr || !job->forget || job->alive()) return;
  if (job->persisting.has_value() || job->committing.has_value()) return;
  context_.effects.push_back(CloseStores{id, UINT64_MAX});
  context_.effects.push_back(DropJob{id});
  context_.copies.Drop(id);
  const uint64_t until = job->forget_attempt;
  context_.jobs.erase(id);
  context_.forgotten.emplace_back(id, until);
  if (context_.forgotten.size() > kForgottenJobs) context_.forgotten.pop_front();
}

void WorkerProcesses::SignalOne(const JobId& id, uint64_t attempt, uint32_t rank, int signal) {
  context_.effects.push_back(SignalWorker{{id, attempt, rank}, signal});
}

// A worker that is still being spawned has no process to signal. `killed` makes Take(WorkerForked)
// send the signal as soon as there is one.
void WorkerProcesses::KillNow(const JobId& id, Attempt& attempt) {
  attempt.kill_at.reset();
  for (auto& [rank, worker] : attempt.workers) {
    if (worker.state == Worker::State::kGone || worker.killed) continue;
    worker.asked = true;
    worker.killed = true;
    if (worker.state == Worker::State::kAlive) {
      SignalOne(id, attempt.start->attempt(), rank, SIGKILL);
    }
  }
}

// The job may be gone afterwards.
void WorkerProcesses::ReleaseUpTo(const JobId& id, AgentJob& job, uint64_t highest) {
  std::vector<uint64_t> ended;
  for (auto& [number, attempt] : job.attempts) {
    if (number > highest) break;
    Release(id, job, attempt);
    if (!attempt.alive()) ended.push_back(number);
  }
  for (const uint64_t number : ended) {
    if (context_.FindJob(id) != nullptr) AfterEnd(id, number);
  }
}

// As KillNow, but workers that can continue leave their group and keep their process.
void WorkerProcesses::Release(const JobId& id, AgentJob& job, Attempt& attempt) {
  if (attempt.terminated || attempt.failed) return KillNow(id, attempt);
  bool leaving = false;
  for (auto& [rank, worker] : attempt.workers) {
    if (worker.state == Worker::State::kGone || worker.killed) continue;
    if (worker.state == Worker::State::kAlive && worker.continues) {
      if (worker.left) {
        Keep(id, job, attempt, rank);
        continue;
      }
      if (!worker.asked) {
        context_.effects.push_back(LeaveGroup{{id, attempt.start->attempt(), rank}});
      }
      worker.asked = true;
      leaving = true;
      continue;
    }
    worker.asked = true;
    worker.killed = true;
    if (worker.state == Worker::State::kAlive) {
      SignalOne(id, attempt.start->attempt(), rank, SIGKILL);
    }
  }
  if (leaving && !attempt.kill_at.has_value()) attempt.kill_at = context_.now + kLeaveLimit;
}

// The controller sees the worker as ended: its process is part of no attempt until it continues.
void WorkerProcesses::Keep(const JobId& id, AgentJob& job, Attempt& attempt, uint32_t rank) {
  const uint32_t local = rank - attempt.start->first_rank();
  const WorkerId worker{id, attempt.start->attempt(), rank};
  attempt.workers.at(rank).state = Worker::State::kGone;
  job.kept.insert_or_assign(local, KeptWorker{worker, context_.now + kKeepLimit});
  proto::Event event;
  proto::WorkerExited& exited = *event.mutable_worker_exited();
  exited.set_job_id(id.value());
  exited.set_attempt(worker.attempt);
  exited.set_rank(rank);
  exited.set_exit_code(-1);
  exited.set_signal(SIGKILL);
  exited.set_asked(true);
  context_.Report(std::move(event));
}

void WorkerProcesses::EndKept(AgentJob& job) {
  for (const auto& [local, kept] : std::exchange(job.kept, {})) {
    context_.effects.push_back(SignalWorker{kept.worker, SIGKILL});
  }
}

void WorkerProcesses::Take(const WorkerContinues& fact) {
  Attempt* attempt = context_.FindAttempt(fact.worker);
  if (attempt != nullptr) attempt->workers.at(fact.worker.rank).continues = fact.continues;
}

void WorkerProcesses::Take(const WorkerLeft& fact) {
  Attempt* attempt = context_.FindAttempt(fact.worker);
  if (attempt == nullptr) return;
  Worker& worker = attempt->workers.at(fact.worker.rank);
  if (worker.state != Worker::State::kAlive || worker.killed || !worker.continues) return;
  worker.left = true;
  // Not ordered yet: the controller may not have heard of the fault, or there is none.
  if (!worker.asked || attempt->terminated) return;
  const JobId& id = fact.worker.job;
  AgentJob& job = context_.jobs.at(id);
  if (job.forget || context_.shutting_down) return;  // it is being killed
  Keep(id, job, *attempt, fact.worker.rank);
  AfterEnd(id, fact.worker.attempt);
}

void WorkerProcesses::Terminate(const JobId& id, Attempt& attempt, Duration grace) {
  if (!attempt.alive()) return;
  const Instant end = context_.now + grace;
  if (attempt.terminated) {
    // A second order can only shorten the grace, never extend it.
    if (attempt.kill_at.has_value()) attempt.kill_at = std::min(*attempt.kill_at, end);
    return;
  }
  attempt.terminated = true;
  attempt.kill_at = end;
  for (auto& [rank, worker] : attempt.workers) {
    if (worker.state == Worker::State::kGone || worker.killed) continue;
    worker.asked = true;
    if (worker.state == Worker::State::kSpawning) {
      worker.killed = true;  // it has nothing to save yet
      continue;
    }
    SignalOne(id, attempt.start->attempt(), rank, SIGTERM);
    SignalOne(id, attempt.start->attempt(), rank, SIGCONT);  // a stopped one would not hear it
  }
}

void WorkerProcesses::RunTimers() {
  for (auto& [id, job] : context_.jobs) {
    for (auto& [number, attempt] : job.attempts) {
      if (attempt.kill_at.has_value() && *attempt.kill_at <= context_.now) KillNow(id, attempt);
    }
    const bool over = std::ranges::any_of(
        job.kept, [this](const auto& entry) { return entry.second.until <= context_.now; });
    if (over) EndKept(job);
  }
}

void WorkerProcesses::ReportFailedStart(const std::string& job, uint64_t attempt,
                                        const std::string& reason, bool permanent) {
  proto::Event event;
  proto::WorkersFailedToStart& failed = *event.mutable_workers_failed_to_start();
  failed.set_job_id(job);
  failed.set_attempt(attempt);
  failed.set_reason(ToValidUtf8(reason));
  failed.set_permanent(permanent);
  context_.Report(std::move(event));
}

void WorkerProcesses::Take(const WorkerForked& fact) {
  Attempt* attempt = context_.FindAttempt(fact.worker);
  if (attempt == nullptr) return;
  const auto& [id, number, rank] = fact.worker;
  Worker& worker = attempt->workers.at(rank);
  if (worker.state != Worker::State::kSpawning) return;

  if (!fact.error.empty()) {
    const bool wanted = !attempt->failed && !attempt->doomed();
    worker.state = Worker::State::kGone;
    if (wanted) {
      ReportFailedStart(id.value(), number, fact.error, fact.permanent);
    }
    attempt->failed = true;
    KillNow(id, *attempt);
    AfterEnd(id, number);
    return;
  }
  worker.state = Worker::State::kAlive;
  worker.pid = fact.pid;
  // It was to be killed while it was forked.
  if (worker.killed) SignalOne(id, number, rank, SIGKILL);
  if (attempt->start_reported || attempt->failed || attempt->doomed()) return;
  proto::Event event;
  proto::WorkersStarted& started = *event.mutable_workers_started();
  started.set_job_id(id.value());
  started.set_attempt(number);
  for (const auto& [other_rank, other] : attempt->workers) {
    if (other.pid == 0) return;  // not all have a process yet
    started.add_pids(other.pid);
  }
  // Reported once, when every local rank has a process.
  attempt->start_reported = true;
  context_.Report(std::move(event));
}

void WorkerProcesses::Take(const WorkerGone& fact) {
  if (AgentJob* job = context_.FindJob(fact.worker.job)) {
    std::erase_if(job->kept,
                  [&fact](const auto& entry) { return entry.second.worker == fact.worker; });
  }
  Attempt* attempt = context_.FindAttempt(fact.worker);
  if (attempt == nullptr) return;
  Worker& worker = attempt->workers.at(fact.worker.rank);
  if (worker.state != Worker::State::kAlive) return;
  worker.state = Worker::State::kGone;

  proto::Event event;
  proto::WorkerExited& exited = *event.mutable_worker_exited();
  exited.set_job_id(fact.worker.job.value());
  exited.set_attempt(fact.worker.attempt);
  exited.set_rank(fact.worker.rank);
  exited.set_exit_code(fact.exit_code);
  exited.set_signal(fact.signal);
  exited.set_message(ToValidUtf8(fact.message));
  exited.set_error_at_ns(fact.error_at_ns);
  exited.set_reached_limit(fact.reached_limit);
  exited.set_ends_job(fact.ends_job);
  // An exit that this agent caused is no fault.
  exited.set_asked(worker.asked);
  exited.set_was_stopped(worker.asked && fact.was_stopped);
  context_.Report(std::move(event));
  AfterEnd(fact.worker.job, fact.worker.attempt);
}

// A worker of `attempt` has ended (0: none in particular): closes what has closed, starts what has
// waited for it, and sees to the snapshots.
void WorkerProcesses::AfterEnd(const JobId& id, uint64_t attempt_number) {
  AgentJob& job = context_.jobs.at(id);
  const auto report_closed = [this, &id, &job](uint64_t number) {
    job.closed_attempt = std::max(job.closed_attempt, number);
    proto::Event event;
    event.mutable_attempt_closed()->set_job_id(id.value());
    event.mutable_attempt_closed()->set_attempt(number);
    context_.Report(std::move(event));
  };
  const auto ended = job.attempts.find(attempt_number);
  if (ended != job.attempts.end() && !ended->second.alive()) {
    job.attempts.erase(ended);
    report_closed(attempt_number);
    // A last try: no later snapshot will come.
    std::erase_if(job.writes, [](const auto& write) { return !write.second.saved; });
    snapshots_.MaybePersist(id, job);
  }
  // Ordered to end an attempt that never had a worker here: report that it ended, or the controller
  // would wait.
  const bool still_there =
      !job.attempts.empty() && job.attempts.begin()->first <= job.killed_attempt;
  if (job.killed_attempt > job.closed_attempt && !still_there) report_closed(job.killed_attempt);

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
    for (auto& [number, attempt] : job.attempts) Terminate(id, attempt, fact.grace);
    EndKept(job);
    snapshots_.MaybePersist(id, job);
  }
}

}  // namespace longhaul::runtime::agent
