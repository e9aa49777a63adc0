#include <algorithm>
#include <csignal>
#include <utility>

#include "runtime/internal/agent_state.h"

namespace longhaul::runtime {

using internal::Epoch;
using Job = internal::AgentJob;
using internal::SnapshotId;
using internal::Worker;

namespace {

constexpr size_t kForgottenJobs = 1024;  // whose late commands are still known to be late

}  // namespace

void AgentCore::State::OpenStore(const wire::OpenStore& command) {
  const JobId id(command.job_id());
  if (IsForgotten(id, command.epoch()) || shutting_down_) return;
  Job& job = jobs_[id];
  if (command.epoch() < job.highest_epoch || command.epoch() <= job.opened_store) return;
  if (command.epoch() > job.forget_epoch) job.forget = false;  // it is back
  job.highest_epoch = command.epoch();
  job.opened_store = command.epoch();
  effects_.push_back(CloseStores{id, command.epoch()});
  job.fetching.reset();
  if (command.fetch().tier() == wire::Restore::TIER_SHARED) {
    job.fetching = command;
    wire::StartWorkers start;
    start.set_job_id(id.value());
    *start.mutable_job() = command.job();
    effects_.push_back(FetchBack{id, command.epoch(), command.fetch(),
                                 std::make_shared<const wire::StartWorkers>(std::move(start))});
    return;
  }
  effects_.push_back(OpenStoreAt{id, command.epoch(), command.world(), command.torch_version()});
}

void AgentCore::State::Take(const StoreListening& fact) {
  const Job* job = FindJob(fact.job);
  if (job == nullptr || fact.epoch < job->highest_epoch) return;
  if (!fact.error.empty()) {
    TellFailedStart(fact.job.value(), fact.epoch, "cannot open the store: " + fact.error, false);
    return;
  }
  wire::Event event;
  wire::StoreOpened& opened = *event.mutable_store_opened();
  opened.set_job_id(fact.job.value());
  opened.set_epoch(fact.epoch);
  opened.set_port(fact.port);
  Tell(std::move(event));
}

void AgentCore::State::StartWorkers(const wire::StartWorkers& command) {
  const JobId id(command.job_id());
  if (IsForgotten(id, command.epoch()) || shutting_down_) return;
  Job& job = jobs_[id];
  const uint64_t epoch = command.epoch();
  if (epoch < job.highest_epoch || epoch <= job.started_epoch || epoch <= job.killed_epoch) return;
  if (epoch > job.forget_epoch) job.forget = false;  // it is back
  job.highest_epoch = epoch;
  job.started_epoch = epoch;
  job.waiting = nullptr;  // of a lower epoch, never started: overtaken
  for (auto& [number, lower] : job.epochs) KillNow(id, lower);

  const std::string nonsense = internal::WhyStartMakesNoSense(command, facts_.slots);
  if (!nonsense.empty()) {
    TellFailedStart(id.value(), epoch, nonsense, true);
    job.killed_epoch = epoch;
    AfterEnd(id, 0);
    return;
  }
  auto start = std::make_shared<const wire::StartWorkers>(command);
  // The gang goes back to the restored step: what was sealed beyond it is not of its history.
  const uint64_t from = command.restore().step();
  if (job.newest.has_value() && job.newest->step > from) job.newest.reset();
  if (job.told.has_value() && job.told->step > from) job.told.reset();
  std::erase_if(job.sealed, [from](const auto& entry) { return entry.first.step > from; });
  TakeHeld(id, job, command);
  job.latest = start;
  job.injected.clear();
  // The peer may be another one now: it gets what this node still holds, at once.
  job.copied.reset();
  MaybeCopy(id, job);
  MaybePersist(id, job);
  if (job.alive()) {
    job.waiting = std::move(start);
  } else {
    Spawn(id, job, start);
  }
}

void AgentCore::State::Spawn(const JobId& id, Job& job, const StartOrder& start) {
  const uint64_t number = start->epoch();
  Epoch epoch{
      start,       {},    RankReports(id, number, start->first_rank(), start->local_ranks()),
      false,       false, false,
      std::nullopt};
  for (uint32_t i = 0; i < start->local_ranks(); ++i) {
    const uint32_t rank = start->first_rank() + i;
    epoch.workers.emplace(rank, Worker{});
    effects_.push_back(SpawnWorker{{id, number, rank}, start});
  }
  job.epochs.emplace(number, std::move(epoch));
}

void AgentCore::State::KillWorkers(const wire::KillWorkers& command) {
  const JobId id(command.job_id());
  if (IsForgotten(id, command.epoch())) return;
  Job& job = jobs_[id];
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

void AgentCore::State::SetInterval(const wire::SetSnapshotInterval& command) {
  const JobId id(command.job_id());
  Job* job = FindJob(id);
  if (job == nullptr || command.epoch() < job->highest_epoch) return;
  job->highest_epoch = command.epoch();
  const auto told = job->intervals.find(command.epoch());
  if (told != job->intervals.end() && told->second == command.steps()) return;
  job->intervals = {{command.epoch(), command.steps()}};
  effects_.push_back(TellInterval{id, command.epoch(), command.steps()});
}

void AgentCore::State::Commit(const wire::CommitSnapshot& command) {
  const JobId id(command.job_id());
  if (IsForgotten(id, command.epoch())) return;
  Job* job = FindJob(id);
  const SnapshotId snapshot{command.epoch(), command.step()};
  if (job == nullptr || job->latest == nullptr) {
    // An earlier life of this agent knew the run's directory; the controller shall not wait for us.
    wire::Event event;
    wire::SnapshotFailed& failed = *event.mutable_snapshot_failed();
    failed.set_job_id(id.value());
    failed.set_epoch(snapshot.epoch);
    failed.set_step(snapshot.step);
    failed.set_reason("the agent has been started again and does not know the job");
    failed.set_tier(wire::Restore::TIER_DISK);
    Tell(std::move(event));
    return;
  }
  if (job->committed.has_value() && *job->committed >= snapshot) return;
  if (job->committing.has_value()) {
    // It waits for the one under way; of several that wait the newest is enough.
    const bool newer = !job->next_commit.has_value() ||
                       SnapshotId{job->next_commit->epoch(), job->next_commit->step()} < snapshot;
    if (*job->committing < snapshot && newer) job->next_commit = command;
    return;
  }
  job->committing = snapshot;
  WriteManifest write{command, job->latest, job->highest_epoch, {}};
  if (job->latest->restore().tier() == wire::Restore::TIER_DISK) {
    write.protected_steps.push_back(job->latest->restore().step());
  }
  if (command.copying_step() > 0) write.protected_steps.push_back(command.copying_step());
  effects_.push_back(std::move(write));
}

void AgentCore::State::Probe(const wire::ProbeWorkers& command) {
  const JobId id(command.job_id());
  const Job* job = FindJob(id);
  if (job == nullptr || command.epoch() < job->highest_epoch) return;
  ProbeWorkersNow probe{id, command.epoch(), {}, command.resume_stopped()};
  const auto epoch = job->epochs.find(command.epoch());
  if (epoch != job->epochs.end()) {
    for (const auto& [rank, worker] : epoch->second.workers) {
      if (worker.state == Worker::State::kAlive) probe.ranks.push_back(rank);
    }
  }
  effects_.push_back(std::move(probe));
}

void AgentCore::State::Take(const ProbedWorkers& fact) {
  const Job* job = FindJob(fact.job);
  if (job == nullptr || fact.epoch < job->highest_epoch) return;
  wire::Event event;
  wire::WorkersProbed& probed = *event.mutable_workers_probed();
  probed.set_job_id(fact.job.value());
  probed.set_epoch(fact.epoch);
  const auto epoch = job->epochs.find(fact.epoch);
  for (const wire::WorkersProbed::Worker& seen : fact.workers) {
    if (epoch == job->epochs.end() || !epoch->second.workers.contains(seen.rank())) continue;
    wire::WorkersProbed::Worker& worker = *probed.add_workers();
    worker = seen;
    worker.set_last_step(epoch->second.reports.last_step(seen.rank()));
    worker.set_phase(epoch->second.reports.phase(seen.rank()));
  }
  Tell(std::move(event));
}

void AgentCore::State::Forget(const wire::ForgetJob& command) {
  const JobId id(command.job_id());
  const bool over = command.epoch() == 0;
  Job* job = FindJob(id);
  if (job != nullptr && !over && job->highest_epoch > command.epoch()) return;  // it is back
  const auto is_of_job = [&id](const auto& each) { return each.job == id; };
  const bool held = std::erase_if(facts_.held, is_of_job) > 0;
  if (job == nullptr) {
    if (held) effects_.push_back(DropJob{id});
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

void AgentCore::State::MaybeDrop(const JobId& id) {
  const Job* job = FindJob(id);
  if (job == nullptr || !job->forget || job->alive()) return;
  if (job->persisting.has_value() || job->committing.has_value()) return;
  effects_.push_back(CloseStores{id, UINT64_MAX});
  effects_.push_back(DropJob{id});
  const uint64_t until = job->forget_epoch;
  jobs_.erase(id);
  forgotten_.emplace_back(id, until);
  if (forgotten_.size() > kForgottenJobs) forgotten_.pop_front();
}

void AgentCore::State::Inject(const wire::InjectFault& command) {
  const JobId id(command.job_id());
  Job* job = FindJob(id);
  if (job == nullptr || command.epoch() < job->highest_epoch) return;
  const auto epoch = job->epochs.find(command.epoch());
  if (epoch == job->epochs.end() || !epoch->second.alive()) return;
  const wire::PlannedFault& fault = command.fault();
  if (!job->injected.emplace(fault.kind(), fault.target(), fault.step()).second) return;

  if (fault.kind() == wire::PlannedFault::KILL_AGENT ||
      fault.kind() == wire::PlannedFault::KILL_NODE) {
    effects_.push_back(KillNode{fault.kind() == wire::PlannedFault::KILL_NODE});
    return;
  }
  const auto worker = epoch->second.workers.find(fault.target());
  if (worker == epoch->second.workers.end() || worker->second.state != Worker::State::kAlive) {
    return;
  }
  if (fault.kind() == wire::PlannedFault::KILL_WORKER) {
    // Its peers may fail, and all be told to end, before its own end is seen: it stays the cause.
    worker->second.killed = true;
    SignalOne(id, command.epoch(), fault.target(), SIGKILL);
  } else if (fault.kind() == wire::PlannedFault::STOP_WORKER) {
    SignalOne(id, command.epoch(), fault.target(), SIGSTOP);
    resumes_.push_back({now_ + Duration(std::max<int64_t>(0, fault.duration_ns())),
                        {id, command.epoch(), fault.target()}});
  }
}

}  // namespace longhaul::runtime
