#include "runtime/agent/node_snapshots.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/utf8.h"
#include "runtime/agent/worker_processes.h"

namespace longhaul::runtime::agent {

void AddOwnSnapshots(const JobId& id, const AgentJob& job, proto::AgentJoined& joined) {
  constexpr int kListed = 2;  // an older one may be replaced at any time
  if (job.forget) return;
  int listed = 0;
  for (auto sealed = job.sealed.rbegin(); sealed != job.sealed.rend(); ++sealed) {
    const auto& [snapshot, start] = *sealed;
    if (snapshot.attempt < job.memory_since || ++listed > kListed) break;
    for (uint32_t i = 0; i < start->local_ranks(); ++i) {
      proto::AgentJoined::HeldSnapshot& held = *joined.add_held();
      held.set_job_id(id.value());
      held.set_rank(start->arena_first_rank() + i);
      held.set_step(snapshot.step);
      held.set_attempt(snapshot.attempt);
    }
  }
}

void NodeSnapshots::Commit(const proto::CommitSnapshot& command) {
  const JobId id(command.job_id());
  if (context_.IsForgotten(id, command.attempt())) return;
  AgentJob* job = context_.FindJob(id);
  const SnapshotId snapshot{command.attempt(), command.step()};
  if (job == nullptr || job->latest == nullptr) {
    // An earlier life of this agent knew the run's directory; the controller shall not wait for us.
    proto::Event event;
    proto::SnapshotFailed& failed = *event.mutable_snapshot_failed();
    failed.set_job_id(id.value());
    failed.set_attempt(snapshot.attempt);
    failed.set_step(snapshot.step);
    failed.set_reason("the agent has been started again and does not know the job");
    failed.set_tier(proto::Restore::TIER_DISK);
    context_.Report(std::move(event));
    return;
  }
  if (job->latest->attempt() > snapshot.attempt && job->latest->restore().step() < snapshot.step) {
    return ReportUnsaved(id, snapshot, "the job has gone back to an earlier step", true);
  }
  // A repeated grant: the commit is done, and its report is in the outbox or acknowledged.
  if (job->committed.has_value() && *job->committed >= snapshot) return;
  if (job->committing.has_value()) {
    // It waits for the one under way; of several that wait the newest is enough.
    const bool newer = !job->next_commit.has_value() ||
                       SnapshotId{job->next_commit->attempt(), job->next_commit->step()} < snapshot;
    if (*job->committing < snapshot && newer) job->next_commit = command;
    return;
  }
  job->committing = snapshot;
  WriteManifest write{command, job->latest, job->highest_attempt, {}};
  // Retention runs after the manifest is written. Three checkpoints must survive it whatever their
  // age: the one that workers are reading now, the one that is being copied, and the newest one of
  // which the controller knows.
  if (job->latest->restore().tier() == proto::Restore::TIER_DISK) {
    write.protected_steps.push_back(job->latest->restore().step());
  }
  if (command.copying_step() > 0) write.protected_steps.push_back(command.copying_step());
  if (command.committed_step() > 0) write.protected_steps.push_back(command.committed_step());
  context_.effects.push_back(std::move(write));
}

// Held snapshots were verified at the agent's start. They count for the job only if the workers
// restore exactly this step from memory and each local rank has it; otherwise the first seal of the
// new attempt replaces them.
void NodeSnapshots::TakeHeld(const JobId& id, AgentJob& job, const proto::StartWorkers& start) {
  const proto::Restore& restore = start.restore();
  uint32_t ranks = 0;
  uint64_t attempt = 0;
  for (const AgentFacts::HeldSnapshot& held : context_.facts.held) {
    const bool ours = held.job == id && held.rank >= start.arena_first_rank() &&
                      held.rank - start.arena_first_rank() < start.local_ranks();
    if (!ours || held.step != restore.step()) continue;
    ++ranks;
    attempt = std::max(attempt, held.attempt);
  }
  const bool goes_on = restore.tier() == proto::Restore::TIER_MEMORY && restore.step() > 0;
  if (goes_on && ranks == start.local_ranks() && !job.newest.has_value()) {
    NoteSealed(job, SnapshotId{attempt, restore.step()},
               std::make_shared<const proto::StartWorkers>(start));
  }
  std::erase_if(context_.facts.held, [&id](const auto& held) { return held.job == id; });
}

void NodeSnapshots::NoteSealed(AgentJob& job, const SnapshotId& snapshot, const StartOrder& start) {
  constexpr size_t kRemembered = 4;  // an arena has three slots
  job.newest = snapshot;
  job.sealed_by = start;
  // The arena empties the slots of this step and above when it seals: they are of earlier attempts.
  std::erase_if(job.sealed, [&snapshot](const auto& each) {
    return each.first.step >= snapshot.step && each.first != snapshot;
  });
  job.sealed[snapshot] = start;
  if (job.sealed.size() > kRemembered) job.sealed.erase(job.sealed.begin());
}

// Remembers more writes than there are snapshots in memory, so none of those is written again.
void NodeSnapshots::NoteWrite(AgentJob& job, const SnapshotId& snapshot, DiskWrite write) {
  constexpr size_t kRemembered = 8;
  if (write.saved) job.persisted = std::max(job.persisted.value_or(snapshot), snapshot);
  job.writes[snapshot] = std::move(write);
  if (job.writes.size() > kRemembered) job.writes.erase(job.writes.begin());
}

// The controller names the step, because only it knows which one every node has: nodes that each
// took their newest would write different ones, and none would ever be whole. Once this agent is
// to end and its workers have, nobody will name another: then the newest is saved unasked. Each
// snapshot is written once, so the writing comes to an end.
std::optional<SnapshotId> NodeSnapshots::Wanted(const AgentJob& job) const {
  const auto is_new = [&job](const SnapshotId& id) { return !job.writes.contains(id); };
  if (job.ordered.has_value() && is_new(*job.ordered) && job.sealed.contains(*job.ordered))
    return job.ordered;
  const bool named =
      job.ordered.has_value() || (job.latest != nullptr && job.latest->persist_on_command());
  const bool last = context_.shutting_down && !job.alive();
  if ((named && !last) || !job.newest.has_value() || !is_new(*job.newest)) return std::nullopt;
  // After a rollback the newest snapshot may be older than what is on disk.
  if (job.persisted.has_value() && *job.persisted > *job.newest) return std::nullopt;
  return job.newest;
}

void NodeSnapshots::MaybePersist(const JobId& id, AgentJob& job) {
  if (job.persisting.has_value()) return;
  if (job.ordered.has_value() && !job.writes.contains(*job.ordered) &&
      !job.sealed.contains(*job.ordered)) {
    NoteWrite(job, *job.ordered, {});  // it waited for too long
    ReportUnsaved(id, *job.ordered, "newer snapshots have taken its place in memory", true);
  }
  const std::optional<SnapshotId> wanted = Wanted(job);
  if (!wanted.has_value()) return;
  const StartOrder& start = *wanted == job.newest ? job.sealed_by : job.sealed.at(*wanted);
  std::vector<uint32_t> ranks = RanksToPersist(*start);
  // What nobody named is written whole: nobody may be left to write the rest.
  if (*wanted == job.ordered && !job.ordered_ranks.empty()) ranks = job.ordered_ranks;
  if (ranks.empty()) return;
  job.persisting = wanted;
  job.writing = ranks;
  context_.effects.push_back(
      PersistPieces{id, wanted->attempt, wanted->step, std::move(ranks), start});
}

void NodeSnapshots::PersistOne(const proto::PersistSnapshot& command) {
  const JobId id(command.job_id());
  if (context_.IsForgotten(id, command.attempt())) return;
  const SnapshotId snapshot{command.attempt(), command.step()};
  AgentJob* job = context_.FindJob(id);
  if (job == nullptr) return ReportUnsaved(id, snapshot, "the agent does not know the job", false);
  const std::vector<uint32_t> ranks(command.ranks().begin(), command.ranks().end());
  const auto among = [&ranks](const std::vector<uint32_t>& all) {
    return std::all_of(ranks.begin(), ranks.end(), [&all](uint32_t rank) {
      return std::find(all.begin(), all.end(), rank) != all.end();
    });
  };
  // A repeated order: it has been answered, or will be.
  const auto write = job->writes.find(snapshot);
  const bool saved = write != job->writes.end() && write->second.saved;
  if (saved && among(write->second.ranks)) return;
  // The three cases of a repeated order differ in their ranks. A write that covers the ordered
  // ranks answers it. One with other ranks cannot, and the snapshot is written only once.
  if (job->persisting == snapshot && among(job->writing)) return;
  if (saved || job->persisting == snapshot) {
    return ReportUnsaved(id, snapshot, "other ranks of it have been written", true);
  }
  const auto sealed = job->sealed.find(snapshot);
  if (sealed == job->sealed.end()) {
    return ReportUnsaved(id, snapshot, "it is not in this node's memory any more", true);
  }
  const std::vector<uint32_t> own = RanksToPersist(*sealed->second);
  if (own.empty() || !among(own)) {
    return ReportUnsaved(id, snapshot, "another node was to write it", true);
  }
  if (job->persisting != snapshot) job->writes.erase(snapshot);  // it failed: once more
  job->ordered = snapshot;
  job->ordered_ranks = ranks;
  MaybePersist(id, *job);
}

void NodeSnapshots::ReportUnsaved(const JobId& id, const SnapshotId& snapshot,
                                  const std::string& reason, bool overtaken) {
  proto::Event event;
  proto::SnapshotFailed& failed = *event.mutable_snapshot_failed();
  failed.set_job_id(id.value());
  failed.set_attempt(snapshot.attempt);
  failed.set_step(snapshot.step);
  failed.set_reason(ToValidUtf8(reason));
  failed.set_tier(proto::Restore::TIER_DISK);
  failed.set_overtaken(overtaken);
  context_.Report(std::move(event));
}

// Replicated state needs no copies: every other node has it.
void NodeSnapshots::MaybeCopy(const JobId& id, AgentJob& job) {
  if (job.copying.has_value() || !job.newest.has_value() || job.latest == nullptr) return;
  if (job.latest->peer_port() == 0 || job.latest->job().snapshot().replicated()) return;
  if (job.copied.has_value() && *job.copied >= *job.newest) return;
  // The peer stores copies by rank. After a change of size the same node has other ranks, so what
  // it sealed before cannot be copied under them.
  if (!SameRanks(*job.sealed_by, *job.latest)) return;
  SendCopies order{id, job.newest->attempt, job.newest->step, {}, job.latest};
  for (uint32_t i = 0; i < job.latest->local_ranks(); ++i) {
    order.ranks.push_back(job.latest->first_rank() + i);
  }
  job.copying = job.newest;
  context_.effects.push_back(std::move(order));
}

void NodeSnapshots::Take(const CopiesSent& fact) {
  AgentJob* job = context_.FindJob(fact.job);
  const SnapshotId snapshot{fact.attempt, fact.step};
  if (job == nullptr || job->copying != snapshot) return;
  job->copying.reset();
  // A newer snapshot makes the loss of this copy harmless: MaybeCopy sends the newer one next. A
  // failure is reported once until a copy succeeds again, because each snapshot would fail in the
  // same way.
  const bool overtaken = !job->newest.has_value() || *job->newest > snapshot;
  // A peer that was chosen meanwhile shall have it too.
  if (job->latest != nullptr && job->latest->peer_node() == fact.holder) job->copied = snapshot;
  proto::Event event;
  if (fact.error.empty()) {
    job->copy_failure_reported = false;
    proto::SnapshotReplicated& replicated = *event.mutable_snapshot_replicated();
    replicated.set_job_id(fact.job.value());
    replicated.set_attempt(fact.attempt);
    replicated.set_step(fact.step);
    replicated.set_holder(fact.holder);
    replicated.set_took_ns(fact.took.count());
    context_.Report(std::move(event));
  } else if (!overtaken && !std::exchange(job->copy_failure_reported, true)) {
    proto::SnapshotFailed& failed = *event.mutable_snapshot_failed();
    failed.set_job_id(fact.job.value());
    failed.set_attempt(fact.attempt);
    failed.set_step(fact.step);
    failed.set_reason(ToValidUtf8("no copy at " + fact.holder + ": " + fact.error));
    failed.set_tier(proto::Restore::TIER_PEER);
    context_.Report(std::move(event));
  }
  MaybeCopy(fact.job, *job);
}

// The controller counts in nodes: it hears of a copy once all ranks of the other node have one. All
// nodes of a gang have the same number of ranks. What arrives before the job has started here is
// reported when the agent connects the next time.
void NodeSnapshots::Take(const CopyReceived& fact) {
  const SnapshotId snapshot{fact.attempt, fact.step};
  if (context_.IsForgotten(fact.job, fact.attempt)) return;
  if (!context_.copies.Add(fact.job, fact.rank, snapshot)) return;
  const AgentJob* job = context_.FindJob(fact.job);
  if (job == nullptr || job->latest == nullptr) return;
  const uint32_t ranks = job->latest->local_ranks();
  const uint32_t first = fact.rank - fact.rank % ranks;
  if (!context_.copies.HasAll(fact.job, first, ranks, snapshot)) return;
  proto::Event event;
  proto::CopyReceived& received = *event.mutable_copy_received();
  received.set_job_id(fact.job.value());
  received.set_attempt(fact.attempt);
  received.set_step(fact.step);
  received.set_first_rank(first);
  received.set_ranks(ranks);
  context_.Report(std::move(event));
}

// With the whole cluster ending and no controller to grant the commit, what this agent holds of a
// state is either all of it or no checkpoint.
void NodeSnapshots::MaybeCommitAlone(const JobId& id, AgentJob& job,
                                     const PiecesPersisted& persisted) {
  const SnapshotId snapshot{persisted.attempt, persisted.step};
  if (!context_.cluster_ended || context_.connected || job.committing.has_value()) return;
  if (job.committed.has_value() && *job.committed >= snapshot) return;
  const bool replicated = job.latest->job().snapshot().replicated();
  const size_t needed = replicated ? 1 : job.latest->world();
  if (job.latest->attempt() != persisted.attempt || persisted.files.size() != needed) return;
  proto::CommitSnapshot commit;
  commit.set_job_id(id.value());
  commit.set_attempt(persisted.attempt);
  commit.set_step(persisted.step);
  commit.set_world(job.latest->world());
  for (const proto::SnapshotPersisted::File& file : persisted.files) *commit.add_files() = file;
  Commit(commit);
}

void NodeSnapshots::Take(const PiecesPersisted& fact) {
  AgentJob* job = context_.FindJob(fact.job);
  const SnapshotId snapshot{fact.attempt, fact.step};
  if (job == nullptr || job->persisting != snapshot) return;
  job->persisting.reset();
  proto::Event event;
  if (fact.error.empty()) {
    NoteWrite(*job, snapshot, {true, job->writing});
    proto::SnapshotPersisted& persisted = *event.mutable_snapshot_persisted();
    persisted.set_job_id(fact.job.value());
    persisted.set_attempt(fact.attempt);
    persisted.set_step(fact.step);
    for (const proto::SnapshotPersisted::File& file : fact.files) *persisted.add_files() = file;
    persisted.set_took_ns(fact.took.count());
    context_.Report(std::move(event));
    MaybeCommitAlone(fact.job, *job, fact);
  } else {
    NoteWrite(*job, snapshot, {false, job->writing});
    if (fact.overtaken) job->sealed.erase(snapshot);
    // Overtaken while it was read: a newer one is there, and nothing is lost. Who named it shall
    // name another.
    const bool overtaken = !job->newest.has_value() || *job->newest > snapshot;
    const bool named = job->ordered == snapshot;
    if (named || !overtaken) {
      ReportUnsaved(fact.job, snapshot, fact.error, named && fact.overtaken);
    }
  }
  MaybePersist(fact.job, *job);
  processes_.MaybeDrop(fact.job);
}

// A user or another program has removed folders. The controller must not choose them for a restore.
void NodeSnapshots::Take(const CheckpointsMissing& fact) {
  if (context_.FindJob(fact.job) == nullptr || fact.lost.empty()) return;
  proto::Event event;
  proto::CheckpointsLost& lost = *event.mutable_checkpoints_lost();
  lost.set_job_id(fact.job.value());
  for (const CheckpointsMissing::Checkpoint& checkpoint : fact.lost) {
    proto::CheckpointsLost::Checkpoint& one = *lost.add_lost();
    one.set_step(checkpoint.step);
    one.set_attempt(checkpoint.attempt);
  }
  lost.set_folder(ToValidUtf8(fact.folder));
  context_.Report(std::move(event));
}

void NodeSnapshots::Take(const ManifestWritten& fact) {
  AgentJob* job = context_.FindJob(fact.job);
  const SnapshotId snapshot{fact.attempt, fact.step};
  if (job == nullptr || job->committing != snapshot) return;
  job->committing.reset();
  proto::Event event;
  if (fact.error.empty()) {
    job->committed = snapshot;
    proto::SnapshotCommitted& committed = *event.mutable_snapshot_committed();
    committed.set_job_id(fact.job.value());
    committed.set_attempt(fact.attempt);
    committed.set_step(fact.step);
  } else {
    proto::SnapshotFailed& failed = *event.mutable_snapshot_failed();
    failed.set_job_id(fact.job.value());
    failed.set_attempt(fact.attempt);
    failed.set_step(fact.step);
    failed.set_reason(ToValidUtf8(fact.error));
    failed.set_tier(proto::Restore::TIER_DISK);
  }
  context_.Report(std::move(event));
  // After the report, so that the controller receives the commits in their order.
  if (job->next_commit.has_value()) Commit(*std::exchange(job->next_commit, std::nullopt));
  processes_.MaybeDrop(fact.job);
}

}  // namespace longhaul::runtime::agent
