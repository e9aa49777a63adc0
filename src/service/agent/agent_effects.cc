// What the agent does when its core asks for it: the effects of runtime::AgentCore.
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "io/log/log.h"
#include "service/agent/agent_service.h"
#include "service/agent/job_directories.h"
#include "service/agent/python/torch_version.h"

namespace longhaul::service {

void AgentService::Do(const runtime::Send& effect) { link_->Send(effect.message); }

void AgentService::Do(const runtime::FindTorch& effect) {
  interpreters_.Enqueue([this, effect, user = user_] {
    runtime::TorchFound found{effect.job, FindTorchVersion(effect.workload, user)};
    return [this, found = std::move(found)] { Feed(found); };
  });
}

void AgentService::Do(const runtime::OpenStoreAt& effect) {
  runtime::StoreServerOptions store_options;
  store_options.dialect = runtime::DialectOfTorch(effect.torch_version);
  Result<std::unique_ptr<runtime::StoreServer>> store =
      runtime::StoreServer::Listen(loop_, options_.address, 0, std::move(store_options));
  runtime::StoreListening answer{effect.job, effect.attempt, 0, ""};
  if (store.ok()) {
    answer.port = (*store)->port();
    stores_.insert_or_assign({effect.job, effect.attempt}, *std::move(store));
  } else {
    answer.error = store.status().message();
  }
  Feed(std::move(answer));
}

void AgentService::Do(const runtime::CloseStores& effect) {
  std::erase_if(stores_, [&effect](const auto& entry) {
    return entry.first.first == effect.job && entry.first.second < effect.below_attempt;
  });
}

void AgentService::Do(const runtime::SpawnWorker& effect) {
  checker_->EndCommand();
  starts_[effect.worker.job] = effect.start;
  if (effect.start->restore().tier() == proto::Restore::TIER_PEER) return FetchThenSpawn(effect);
  SpawnNow(effect);
}

void AgentService::FetchThenSpawn(const runtime::SpawnWorker& order) {
  fetching_.emplace(order.worker, false);
  const auto spawn = [this, order](const Result<PeerWorker::Fetched>& fetched) {
    const bool unwanted = fetching_.extract(order.worker).mapped();
    Status status = fetched.status();
    if (status.ok()) {
      status = memory_->Install(order.worker.job, ArenaOf(*order.start, order.worker.rank),
                                fetched->arena, fetched->bytes);
    }
    if (!status.ok()) {
      io::LogWarning(component_, "rank " + std::to_string(order.worker.rank) +
                                     " has no copy from a peer: " + ToString(status));
    }
    if (unwanted) {
      return Feed(runtime::WorkerForked{order.worker, 0, "ended before its state was here", false});
    }
    SpawnNow(order);
  };
  proto::Restore restore = order.start->restore();
  if (restore.has_source_rank()) {
    restore.set_source_rank(restore.source_rank() + order.worker.rank - order.start->first_rank());
  }
  peers_->Fetch(order.worker.job, order.worker.rank, restore, spawn);
}

void AgentService::SpawnNow(const runtime::SpawnWorker& effect) {
  const Result<std::string> path = endpoints_->Open(effect.worker.job, effect.worker.attempt);
  if (!path.ok()) {
    return Feed(runtime::WorkerForked{effect.worker, 0, path.status().message(), false});
  }
  launcher_->Spawn(effect, RunDirectory(options_.state_directory, *effect.start), *path);
}

void AgentService::Do(const runtime::LeaveGroup& effect) { endpoints_->SendLeave(effect.worker); }

void AgentService::Do(const runtime::ContinueWorker& effect) {
  checker_->EndCommand();
  starts_[effect.worker.job] = effect.start;
  const runtime::SpawnWorker order{effect.worker, effect.start};
  const Result<std::string> path = endpoints_->Open(effect.worker.job, effect.worker.attempt);
  if (!path.ok()) {
    return Feed(runtime::WorkerForked{effect.worker, 0, path.status().message(), false});
  }
  const auto continued = launcher_->Continue(
      effect.from, order, RunDirectory(options_.state_directory, *effect.start), *path);
  if (!continued.ok()) return SpawnNow(order);
  const Status sent =
      endpoints_->Continue(effect.from, effect.worker, continued->environment, continued->log);
  if (sent.ok()) return;
  io::LogWarning(component_, "rank " + std::to_string(effect.worker.rank) +
                                 " cannot continue in its process: " + sent.message());
  launcher_->Signal(effect.worker, SIGKILL);
}

void AgentService::Do(const runtime::SignalWorker& effect) {
  const auto fetching = fetching_.find(effect.worker);
  if (fetching != fetching_.end()) {
    fetching->second |= effect.signal == SIGTERM || effect.signal == SIGKILL;
    return;
  }
  launcher_->Signal(effect.worker, effect.signal);
}

void AgentService::Do(const runtime::PersistPieces& effect) {
  std::vector<std::shared_ptr<const io::SharedMemory>> arenas;
  for (const uint32_t rank : effect.ranks) {
    arenas.push_back(memory_->Find(effect.job, ArenaOf(*effect.start, rank)));
  }
  disk_->Persist(effect, std::move(arenas),
                 CheckpointDirectoryOf(options_.state_directory, *effect.start));
}

void AgentService::Do(const runtime::WriteManifest& effect) {
  disk_->Commit(effect, CheckpointDirectoryOf(options_.state_directory, *effect.start));
}

void AgentService::Do(const runtime::CopyOut& effect) {
  copies_->Copy(effect, RunDirectory(options_.state_directory, *effect.start));
}

void AgentService::Do(const runtime::FetchBack& effect) {
  copies_->Fetch(effect, RunDirectory(options_.state_directory, *effect.start));
}

void AgentService::Do(const runtime::SendCopies& effect) {
  std::vector<std::shared_ptr<const io::SharedMemory>> arenas;
  for (const uint32_t rank : effect.ranks) {
    arenas.push_back(memory_->Find(effect.job, ArenaOf(*effect.start, rank)));
  }
  peers_->Send(effect, std::move(arenas));
}

void AgentService::Do(const runtime::SendInterval& effect) {
  intervals_[{effect.job, effect.attempt}] = effect.steps;
  endpoints_->SendInterval(effect.job, effect.attempt, effect.steps);
}

void AgentService::Do(const runtime::ProbeWorkersNow& effect) {
  const auto start = starts_.find(effect.job);
  const std::string directory =
      start == starts_.end() ? "" : RunDirectory(options_.state_directory, *start->second);
  probes_->Probe(effect, directory,
                 [this](runtime::ProbedWorkers answer) { Feed(std::move(answer)); });
}

void AgentService::Do(const runtime::SampleWorkersNow& effect) {
  probes_->Sample(effect, [this](runtime::SampledWorkers answer) { Feed(std::move(answer)); });
}

void AgentService::Do(const runtime::PrepareFork& effect) {
  launcher_->Prepare(effect, RunDirectory(options_.state_directory, *effect.start));
}

void AgentService::Do(const runtime::EndFork& effect) { launcher_->EndPrepared(effect.job); }

void AgentService::Do(const runtime::DropJob& effect) {
  endpoints_->Close(effect.job);
  launcher_->DropJob(effect.job);
  check_->Drop(effect.job);
  memory_->Drop(effect.job);
  starts_.erase(effect.job);
  std::erase_if(intervals_,
                [&effect](const auto& entry) { return entry.first.first == effect.job; });
  std::erase_if(bad_pieces_,
                [&effect](const auto& entry) { return entry.first.job == effect.job; });
}

void AgentService::Do(const runtime::KillNode& effect) {
  launcher_->KillAll();
  if (effect.memory_too) memory_->Lose();
  raise(SIGKILL);
}

}  // namespace longhaul::service
