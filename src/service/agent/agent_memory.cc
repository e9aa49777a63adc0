#include "service/agent/agent_memory.h"

#include <cstdio>
#include <thread>
#include <utility>

#include "io/clock.h"
#include "io/log/log.h"

namespace longhaul::service {

AgentMemory::AgentMemory(const AgentMemoryOptions& options)
    : node_(options.node), arenas_(options.arena_limit), copies_(options.copy_limit) {
  if (options.snapshot_keeper.empty()) return;
  Result<SnapshotKeeperLink::Opened> opened =
      SnapshotKeeperLink::Open(options.directory, options.snapshot_keeper, options.node);
  if (!opened.ok()) {
    Warn("snapshots in memory will be lost when this agent ends: " + ToString(opened.status()));
    return;
  }
  snapshot_keeper_ = std::move(opened->link);
  copies_.OnNew([this](const PeerMemory::Place& place, const auto& arena) {
    snapshot_keeper_->Put(place.first, place.second, true, arena);
  });
  AdoptAll(std::move(opened->kept));
}

void AgentMemory::Inform(const std::string& what) const { io::LogInfo("agent." + node_, what); }

void AgentMemory::Warn(const std::string& what) const { io::LogWarning("agent." + node_, what); }

void AgentMemory::AdoptAll(std::vector<KeptArena> kept) {
  if (kept.empty()) return;
  const Instant begin = io::MonotonicNow();
  const Result<std::vector<std::string>> ended = EndUsers(kept, snapshot_keeper_->process());
  if (!ended.ok()) {
    // Somebody may still write to one of them: none is touched.
    for (const KeptArena& each : kept) snapshot_keeper_->DropOne(each.job, each.rank, each.copy);
    return Warn("no memory is adopted: " + ended.status().message());
  }
  for (const std::string& each : *ended) Inform(each);
  const Adoption adoption = Adopt(std::move(kept), std::thread::hardware_concurrency());
  for (const std::string& each : adoption.notes) Inform(each);
  for (const KeptArena& each : adoption.dropped)
    snapshot_keeper_->DropOne(each.job, each.rank, each.copy);
  uint64_t bytes = 0;
  for (const AdoptedArena& adopted : adoption.adopted) {
    if (const Status taken = TakeOne(adopted); !taken.ok()) {
      snapshot_keeper_->DropOne(adopted.kept.job, adopted.kept.rank, adopted.kept.copy);
      Warn("not adopted: " + taken.message());
      continue;
    }
    for (const checkpoint::SealedSnapshot& sealed : adopted.sealed) {
      held_.push_back({JobId(adopted.kept.job), adopted.kept.rank, sealed.step, sealed.attempt,
                       adopted.kept.copy});
      bytes += sealed.bytes;
    }
  }
  char text[160];
  std::snprintf(text, sizeof(text),
                "adopted %zu arenas of the agent before: %zu snapshots, %.1f MiB read and found "
                "good in %.3f s",
                adoption.adopted.size(), held_.size(), static_cast<double>(bytes) / (1 << 20),
                ToSeconds(io::MonotonicNow() - begin));
  Inform(text);
}

Status AgentMemory::TakeOne(const AdoptedArena& adopted) {
  const KeptArena& kept = adopted.kept;
  if (kept.copy) return copies_.Adopt({kept.job, kept.rank}, kept.arena, adopted.bytes);
  RETURN_IF_ERROR(arenas_.Install(JobId(kept.job), kept.rank, kept.arena, adopted.bytes));
  copies_.Show({kept.job, kept.rank}, kept.arena);
  return {};
}

void AgentMemory::Share(const JobId& job, uint32_t rank,
                        const std::shared_ptr<const io::SharedMemory>& arena) {
  if (snapshot_keeper_ != nullptr) snapshot_keeper_->Put(job.value(), rank, false, arena);
  copies_.Show({job.value(), rank}, arena);
}

Result<std::shared_ptr<const io::SharedMemory>> AgentMemory::Provide(const JobId& job,
                                                                     uint32_t rank,
                                                                     uint64_t bytes) {
  const std::shared_ptr<const io::SharedMemory> before = arenas_.Find(job, rank);
  ASSIGN_OR_RETURN(std::shared_ptr<const io::SharedMemory> arena,
                   arenas_.Provide(job, rank, bytes));
  if (arena != before) Share(job, rank, arena);
  return arena;
}

Status AgentMemory::Install(const JobId& job, uint32_t rank,
                            std::shared_ptr<const io::SharedMemory> arena, uint64_t bytes) {
  RETURN_IF_ERROR(arenas_.Install(job, rank, arena, bytes));
  Share(job, rank, arena);
  return {};
}

void AgentMemory::Drop(const JobId& job) {
  arenas_.Drop(job);
  copies_.Drop(job.value());
  if (snapshot_keeper_ != nullptr) snapshot_keeper_->DropJob(job.value());
}

void AgentMemory::End() {
  if (snapshot_keeper_ != nullptr) snapshot_keeper_->End();
}

void AgentMemory::Lose() {
  if (snapshot_keeper_ != nullptr) snapshot_keeper_->Kill();
}

}  // namespace longhaul::service
