#include "runtime/agent/second_tier.h"

#include <utility>

#include "base/utf8.h"

namespace longhaul::runtime::agent {

void SecondTier::ReportUncopied(const JobId& id, const SnapshotId& snapshot,
                                const std::string& reason, bool while_restoring) {
  proto::Event event;
  proto::SnapshotFailed& failed = *event.mutable_snapshot_failed();
  failed.set_job_id(id.value());
  failed.set_attempt(snapshot.attempt);
  failed.set_step(snapshot.step);
  failed.set_reason(ToValidUtf8(reason));
  failed.set_while_restoring(while_restoring);
  failed.set_tier(proto::Restore::TIER_SHARED);
  context_.Report(std::move(event));
}

void SecondTier::CopyOutOne(const proto::CopyCheckpoint& command) {
  const JobId id(command.job_id());
  if (context_.IsForgotten(id, command.attempt())) return;
  const SnapshotId snapshot{command.attempt(), command.step()};
  AgentJob* job = context_.FindJob(id);
  if (job == nullptr || job->latest == nullptr) {
    return ReportUncopied(id, snapshot, "the agent does not know the job", false);
  }
  if (job->copying_out == snapshot) return;  // said again
  // One copy at a time, and of several that are ordered meanwhile only the newest, which is the
  // most useful one.
  if (job->copying_out.has_value()) {
    job->next_copy_out = snapshot;
    return;
  }
  job->copying_out = snapshot;
  context_.effects.push_back(CopyOut{id, snapshot.attempt, snapshot.step, job->latest});
}

void SecondTier::Take(const CheckpointCopied& fact) {
  AgentJob* job = context_.FindJob(fact.job);
  const SnapshotId snapshot{fact.attempt, fact.step};
  if (job == nullptr || job->copying_out != snapshot) return;
  job->copying_out.reset();
  if (fact.error.empty()) {
    proto::Event event;
    proto::SnapshotCopied& copied = *event.mutable_snapshot_copied();
    copied.set_job_id(fact.job.value());
    copied.set_attempt(fact.attempt);
    copied.set_step(fact.step);
    copied.set_bytes(fact.bytes);
    copied.set_took_ns(fact.took.count());
    context_.Report(std::move(event));
  } else {
    ReportUncopied(fact.job, snapshot, fact.error, false);
  }
  const auto next = std::exchange(job->next_copy_out, std::nullopt);
  if (!next.has_value() || *next == snapshot || job->latest == nullptr) return;
  job->copying_out = next;
  context_.effects.push_back(CopyOut{fact.job, next->attempt, next->step, job->latest});
}

void SecondTier::Take(const CheckpointFetched& fact) {
  AgentJob* job = context_.FindJob(fact.job);
  if (job == nullptr || !job->fetching.has_value() || job->fetching->attempt() != fact.attempt)
    return;
  const proto::OpenStore open = *std::exchange(job->fetching, std::nullopt);
  // The attempt that needed the checkpoint is over. Its successor has ordered a fetch of its own.
  if (fact.attempt < job->highest_attempt) return;
  if (!fact.error.empty()) {
    return ReportUncopied(fact.job, {fact.attempt, open.fetch().step()}, fact.error, true);
  }
  context_.OpenStore(*job, open);
}

}  // namespace longhaul::runtime::agent
