#include <algorithm>
#include <memory>
#include <utility>

#include "base/utf8.h"
#include "runtime/internal/agent_state.h"

namespace longhaul::runtime {

using internal::Epoch;
using Job = internal::AgentJob;
using internal::SnapshotId;
using internal::Worker;

void AgentCore::State::TakeHeld(const JobId& id, Job& job, const wire::StartWorkers& start) {
  const wire::Restore& restore = start.restore();
  uint32_t ranks = 0;
  uint64_t epoch = 0;
  for (const AgentFacts::HeldSnapshot& held : facts_.held) {
    const bool ours = held.job == id && !held.copy && held.rank >= start.arena_first_rank() &&
                      held.rank - start.arena_first_rank() < start.local_ranks();
    if (!ours || held.step != restore.step()) continue;
    ++ranks;
    epoch = std::max(epoch, held.epoch);
  }
  const bool goes_on = restore.tier() == wire::Restore::TIER_MEMORY && restore.step() > 0;
  if (goes_on && ranks == start.local_ranks() && !job.newest.has_value()) {
    NoteSealed(job, SnapshotId{epoch, restore.step()},
               std::make_shared<const wire::StartWorkers>(start));
  }
  std::erase_if(facts_.held, [&id](const auto& held) { return held.job == id; });
}

void AgentCore::State::NoteSealed(Job& job, const SnapshotId& snapshot, const StartOrder& start) {
  constexpr size_t kRemembered = 4;  // an arena has three slots
  job.newest = snapshot;
  job.sealed_by = start;
  job.sealed[snapshot] = start;
  if (job.sealed.size() > kRemembered) job.sealed.erase(job.sealed.begin());
}

// The controller names the step, because only it knows which one every node has: nodes that each
// took their newest would write different ones, and none would ever be whole. Once this agent is
// to end and its workers have, nobody will name another: then the newest is saved unasked.
std::optional<SnapshotId> AgentCore::State::Wanted(const Job& job) const {
  const auto is_new = [&job](const SnapshotId& id) {
    return job.persisted != id && job.failed != id;
  };
  if (job.told.has_value() && is_new(*job.told) && job.sealed.contains(*job.told)) return job.told;
  const bool named =
      job.told.has_value() || (job.latest != nullptr && job.latest->persist_when_told());
  const bool last = shutting_down_ && !job.alive();
  if ((named && !last) || !job.newest.has_value()) return std::nullopt;
  if (job.persisted.has_value() && *job.persisted >= *job.newest) return std::nullopt;
  if (job.failed.has_value() && *job.failed >= *job.newest) return std::nullopt;
  return job.newest;
}

void AgentCore::State::MaybePersist(const JobId& id, Job& job) {
  if (job.persisting.has_value()) return;
  if (job.told.has_value() && job.persisted != job.told && job.failed != job.told &&
      !job.sealed.contains(*job.told)) {
    job.failed = job.told;  // it waited for too long
    TellUnsaved(id, *job.told, "newer snapshots have taken its place in memory", true);
  }
  const std::optional<SnapshotId> wanted = Wanted(job);
  if (!wanted.has_value()) return;
  const StartOrder& start = *wanted == job.newest ? job.sealed_by : job.sealed.at(*wanted);
  std::vector<uint32_t> ranks = internal::RanksToPersist(*start);
  // What nobody named is written whole: nobody may be left to write the rest.
  if (*wanted == job.told && !job.told_ranks.empty()) ranks = job.told_ranks;
  if (ranks.empty()) return;
  job.persisting = wanted;
  job.writing = ranks;
  effects_.push_back(PersistPieces{id, wanted->epoch, wanted->step, std::move(ranks), start});
}

void AgentCore::State::PersistOne(const wire::PersistSnapshot& command) {
  const JobId id(command.job_id());
  if (IsForgotten(id, command.epoch())) return;
  const SnapshotId snapshot{command.epoch(), command.step()};
  Job* job = FindJob(id);
  if (job == nullptr) return TellUnsaved(id, snapshot, "the agent does not know the job", false);
  const std::vector<uint32_t> ranks(command.ranks().begin(), command.ranks().end());
  const auto among = [&ranks](const std::vector<uint32_t>& all) {
    return std::all_of(ranks.begin(), ranks.end(), [&all](uint32_t rank) {
      return std::find(all.begin(), all.end(), rank) != all.end();
    });
  };
  // Said again: it has answered, or will.
  if (job->persisted == snapshot && among(job->written)) return;
  if (job->persisting == snapshot && among(job->writing)) return;
  if (job->persisted == snapshot || job->persisting == snapshot) {
    return TellUnsaved(id, snapshot, "other ranks of it have been written", true);
  }
  const auto sealed = job->sealed.find(snapshot);
  if (sealed == job->sealed.end()) {
    return TellUnsaved(id, snapshot, "it is not in this node's memory any more", true);
  }
  const std::vector<uint32_t> own = internal::RanksToPersist(*sealed->second);
  if (own.empty() || !among(own)) {
    return TellUnsaved(id, snapshot, "another node was to write it", true);
  }
  job->told = snapshot;
  job->told_ranks = ranks;
  MaybePersist(id, *job);
}

void AgentCore::State::TellUnsaved(const JobId& id, const SnapshotId& snapshot,
                                   const std::string& reason, bool overtaken) {
  wire::Event event;
  wire::SnapshotFailed& failed = *event.mutable_snapshot_failed();
  failed.set_job_id(id.value());
  failed.set_epoch(snapshot.epoch);
  failed.set_step(snapshot.step);
  failed.set_reason(ToValidUtf8(reason));
  failed.set_tier(wire::Restore::TIER_DISK);
  failed.set_overtaken(overtaken);
  Tell(std::move(event));
}

// Replicated state needs no copies: every other node has it.
void AgentCore::State::MaybeCopy(const JobId& id, Job& job) {
  if (job.copying.has_value() || !job.newest.has_value() || job.latest == nullptr) return;
  if (job.latest->peer_port() == 0 || job.latest->job().snapshot().replicated()) return;
  if (job.copied.has_value() && *job.copied >= *job.newest) return;
  if (!internal::SameRanks(*job.sealed_by, *job.latest)) return;
  SendCopies order{id, job.newest->epoch, job.newest->step, {}, job.latest};
  for (uint32_t i = 0; i < job.latest->local_ranks(); ++i) {
    order.ranks.push_back(job.latest->first_rank() + i);
  }
  job.copying = job.newest;
  effects_.push_back(std::move(order));
}

void AgentCore::State::Take(const CopiesSent& fact) {
  Job* job = FindJob(fact.job);
  const SnapshotId snapshot{fact.epoch, fact.step};
  if (job == nullptr || job->copying != snapshot) return;
  job->copying.reset();
  const bool overtaken = !job->newest.has_value() || *job->newest > snapshot;
  // A peer that was chosen meanwhile shall have it too.
  if (job->latest != nullptr && job->latest->peer_node() == fact.holder) job->copied = snapshot;
  wire::Event event;
  if (fact.error.empty()) {
    job->copy_failure_told = false;
    wire::SnapshotReplicated& replicated = *event.mutable_snapshot_replicated();
    replicated.set_job_id(fact.job.value());
    replicated.set_epoch(fact.epoch);
    replicated.set_step(fact.step);
    replicated.set_holder(fact.holder);
    replicated.set_took_ns(fact.took.count());
    Tell(std::move(event));
  } else if (!overtaken && !std::exchange(job->copy_failure_told, true)) {
    wire::SnapshotFailed& failed = *event.mutable_snapshot_failed();
    failed.set_job_id(fact.job.value());
    failed.set_epoch(fact.epoch);
    failed.set_step(fact.step);
    failed.set_reason(ToValidUtf8("no copy at " + fact.holder + ": " + fact.error));
    failed.set_tier(wire::Restore::TIER_PEER);
    Tell(std::move(event));
  }
  MaybeCopy(fact.job, *job);
}

void AgentCore::State::Take(const PiecesPersisted& fact) {
  Job* job = FindJob(fact.job);
  const SnapshotId snapshot{fact.epoch, fact.step};
  if (job == nullptr || job->persisting != snapshot) return;
  job->persisting.reset();
  wire::Event event;
  if (fact.error.empty()) {
    job->persisted = snapshot;
    job->written = job->writing;
    wire::SnapshotPersisted& persisted = *event.mutable_snapshot_persisted();
    persisted.set_job_id(fact.job.value());
    persisted.set_epoch(fact.epoch);
    persisted.set_step(fact.step);
    for (const wire::SnapshotPersisted::File& file : fact.files) *persisted.add_files() = file;
    persisted.set_took_ns(fact.took.count());
    Tell(std::move(event));
  } else {
    job->failed = snapshot;
    if (fact.overtaken) job->sealed.erase(snapshot);
    // Overtaken while it was read: a newer one is there, and nothing is lost. Who named it shall
    // name another.
    const bool overtaken = !job->newest.has_value() || *job->newest > snapshot;
    const bool named = job->told == snapshot;
    if (named || !overtaken) {
      TellUnsaved(fact.job, snapshot, fact.error, named && fact.overtaken);
    }
  }
  MaybePersist(fact.job, *job);
  MaybeDrop(fact.job);
}

void AgentCore::State::Take(const ManifestWritten& fact) {
  Job* job = FindJob(fact.job);
  const SnapshotId snapshot{fact.epoch, fact.step};
  if (job == nullptr || job->committing != snapshot) return;
  job->committing.reset();
  wire::Event event;
  if (fact.error.empty()) {
    job->committed = snapshot;
    wire::SnapshotCommitted& committed = *event.mutable_snapshot_committed();
    committed.set_job_id(fact.job.value());
    committed.set_epoch(fact.epoch);
    committed.set_step(fact.step);
  } else {
    wire::SnapshotFailed& failed = *event.mutable_snapshot_failed();
    failed.set_job_id(fact.job.value());
    failed.set_epoch(fact.epoch);
    failed.set_step(fact.step);
    failed.set_reason(ToValidUtf8(fact.error));
    failed.set_tier(wire::Restore::TIER_DISK);
  }
  Tell(std::move(event));
  if (job->next_commit.has_value()) Commit(*std::exchange(job->next_commit, std::nullopt));
  MaybeDrop(fact.job);
}

}  // namespace longhaul::runtime
