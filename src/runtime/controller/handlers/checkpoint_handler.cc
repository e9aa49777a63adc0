#include "runtime/controller/handlers/checkpoint_handler.h"

#include <algorithm>
#include <utility>

#include "runtime/controller/handlers/job_closer.h"
#include "runtime/controller/placement.h"

namespace longhaul::runtime::controller {

AttemptShape CheckpointHandler::ShapeOf(const JobRecord& job, uint64_t attempt) const {
  return {job.snapshots.NodesOfAttempt(attempt, job.spec()), job.local(),
          job.spec().snapshot().replicated()};
}

// Nodes that the job has left complete their orders too, so membership in the gang is not required.
void CheckpointHandler::OnSnapshotPersisted(const proto::Event& event) {
  const auto& persisted = event.snapshot_persisted();
  JobRecord* job = context_.jobs.Find(persisted.job_id());
  if (job == nullptr || !job->live() || persisted.step() == 0) return;
  const NodeId node(event.node());
  const bool known = job->group.contains(event.node()) || job->snapshots.HasLeft(node);
  if (!known || persisted.attempt() > job->life.attempt()) return;
  job->writer.NodePersisted(node, persisted.attempt(), persisted.step());
  if (persisted.step() <= job->snapshots.committed_step()) return OrderWrite(*job);
  // A state of an older attempt counts as long as the present one continues it.
  if (!job->snapshots.IsOfHistory(persisted.attempt(), persisted.step(), job->life.attempt()))
    return;
  job->writer.TakeFiles(node, persisted, ShapeOf(*job, persisted.attempt()).world());
  GrantIfWhole(*job, persisted.step());
  OrderWrite(*job);
  Advance(*job);
}

// Under a policy for numeric faults, a state counts as good once the steps after it were. Of a job
// that ends or leaves its nodes no further step comes.
bool CheckpointHandler::IsUnproven(const JobRecord& job, uint64_t step) const {
  const uint64_t steps = NumericWatch::StepsOfProof(job.spec().numeric());
  if (steps == 0) return false;
  if (job.numeric.IsBad(step)) return true;
  if (job.closing() || job.life.state() == proto::STOPPING) return false;
  if (job.group.empty() || job.placement.leaving()) return false;
  return job.StepOfAll() < step + steps;
}

void CheckpointHandler::CommitProven(JobRecord& job) {
  if (!job.live() || NumericWatch::StepsOfProof(job.spec().numeric()) == 0) return;
  for (const auto& [step, commit] : job.writer.pending()) GrantIfWhole(job, step);
}

void CheckpointHandler::GrantIfWhole(JobRecord& job, uint64_t step) {
  if (IsUnproven(job, step)) return;
  const auto found = job.writer.pending().find(step);
  if (found == job.writer.pending().end()) return;
  const PendingCommit& commit = found->second;
  const AttemptShape shape = ShapeOf(job, commit.attempt);
  // Grant succeeds once for each step, so exactly one node receives the right to write the
  // manifest. It is the node that reported last: it is alive now.
  if (!job.writer.Grant(step, shape)) return;
  proto::Command command;
  auto* grant = command.mutable_commit_snapshot();
  grant->set_job_id(job.id());
  grant->set_attempt(commit.attempt);
  grant->set_step(step);
  grant->set_world(shape.world());
  if (const auto loss = job.progress.ValidationLossAt(step)) grant->set_validation_loss(*loss);
  for (const auto& [rank, file] : commit.files) *grant->add_files() = file;
  const auto also = job.writer.AlsoServedBy(step, shape);
  for (size_t i = 0; i < also.size(); ++i) {
    for (const uint32_t rank : also[i]) grant->mutable_files(static_cast<int>(i))->add_also(rank);
  }
  // With slow copies and few kept, pruning would take every copy's source away.
  const auto& copying = job.copier.order();
  if (copying.has_value()) grant->set_copying_step(copying->step);
  grant->set_committed_step(job.snapshots.committed_step());
  context_.Send(commit.committer, std::move(command));
}

// The commit is on disk whatever happens to the attempt that reported it, so events of older
// attempts count, but only for a commit that is pending (CheckpointWriter::Commit).
void CheckpointHandler::OnSnapshotCommitted(const proto::Event& event) {
  const auto& committed = event.snapshot_committed();
  const uint64_t step = committed.step();
  JobRecord* job = context_.jobs.Find(committed.job_id());
  if (job == nullptr || !job->live() || committed.attempt() > job->life.attempt()) return;
  if (!job->writer.Commit(committed.attempt(), step)) return;
  const size_t keep = std::max<uint32_t>(job->spec().snapshot().keep(), 1);
  if (job->snapshots.Commit(step, committed.attempt(), keep)) {
    job->writer.ForgetSaveFailure();
    job->ledger.Settle(std::min(job->snapshots.memory_step(), step));
    auto* notification = context_.AddNotification(job->id()).mutable_snapshot();
    notification->set_step(step);
    notification->set_tier("disk");
  }
  OrderCopy(*job);
  placement_.FreeLeft(*job);
  Advance(*job);
}

// The next snapshot is saved as usual. The lost ones are not written again: the nodes have answered
// that they are saved.
void CheckpointHandler::OnCheckpointsLost(const proto::Event& event) {
  const auto& lost = event.checkpoints_lost();
  JobRecord* job = context_.jobs.Find(lost.job_id());
  if (job == nullptr || !job->live()) return;
  const auto& committed = job->snapshots.committed();
  // The newest stays in any case (CommitSnapshot.committed_step).
  const auto keep = static_cast<ptrdiff_t>(std::max<uint32_t>(job->spec().snapshot().keep(), 2));
  const bool commits = std::ranges::any_of(
      job->writer.pending(), [](const auto& commit) { return commit.second.granted; });
  std::string steps;
  for (const auto& checkpoint : lost.lost()) {
    const auto found = committed.find(checkpoint.step());
    if (found == committed.end() || found->second != checkpoint.attempt()) continue;
    // Another agent has removed it with a commit whose report is still on its way.
    if (commits && std::distance(found, committed.end()) >= keep) continue;
    job->snapshots.DropCommitted(checkpoint.step());
    job->writer.MarkFailed(checkpoint.step(), "its checkpoint has been removed");
    steps += (steps.empty() ? "" : ", ") + std::to_string(checkpoint.step());
  }
  if (steps.empty()) return;
  const uint64_t newest = job->snapshots.committed_step();
  const std::string left =
      newest > 0
          ? "the newest checkpoint that is left is of step " + std::to_string(newest)
          : "no checkpoint is left: until the next one, only snapshots in memory can be restored";
  context_.AddMessage(lost.job_id(), proto::MessageNotification::WARNING,
                      "checkpoints have been removed from " + lost.folder() +
                          " while the job runs: step " + steps + "; " + left);
}

void CheckpointHandler::WriteFailed(JobRecord& job, const proto::SnapshotFailed& failed,
                                    const NodeId& node) {
  job.writer.NodeFailed(node, failed.attempt(), failed.step(), failed.reason());
  // The newer seal is written instead.
  if (job.snapshots.IsSealedAgain(failed.attempt(), failed.step())) job.writer.ForgetFailedOrder();
  OrderWrite(job);
  Advance(job);
}

// A commit, or a step that will never be on disk, may be what the end of the job or a departure
// waits for. Each call has no effect if it is not.
void CheckpointHandler::Advance(JobRecord& job) {
  closer_.CloseIfSaved(job);
  placement_.AdvanceVacate(job);
}

// ------------------------------------------------------------------------------- orders to write

void CheckpointHandler::OrderWrite(JobRecord& job) {
  if (!job.live()) return;
  // Only a node that is in the gang, or has left it with its memory, will answer.
  const auto will_answer = [&job](const NodeId& node) {
    return job.group.contains(node.value()) || job.snapshots.HasLeft(node);
  };
  if (job.writer.IsBusy(will_answer)) return;
  const uint64_t step = job.snapshots.memory_step();
  // A step that failed is not ordered again: the next complete step has newer state.
  if (step <= job.snapshots.committed_step() || job.writer.HasFailed(step)) return;
  // Under other ranks other nodes would have to be asked.
  const auto attempt = job.snapshots.AttemptOfComplete(step);
  if (!attempt.has_value()) return;
  const auto writers = job.snapshots.WritersOf(context_.ViewOf(job), step);
  if (writers.empty()) return;
  if (job.writer.Order(*attempt, step, writers, ShapeOf(job, *attempt))) SendOrderAgain(job);
}

void CheckpointHandler::RetryFailed(JobRecord& job) {
  const uint64_t step = job.snapshots.memory_step();
  if (!job.live() || job.writer.order().has_value() || !job.writer.HasFailed(step)) return;
  const std::string reason = job.writer.WhyNotSaved(step);
  job.writer.ForgetFailedOrder();
  OrderWrite(job);
  if (!job.writer.order().has_value()) job.writer.MarkFailed(step, reason);  // nobody can write it
}

bool CheckpointHandler::CanBeSaved(JobRecord& job) {
  const uint64_t step = job.snapshots.memory_step();
  if (job.writer.IsLost(step)) return false;
  OrderWrite(job);
  CommitProven(job);
  if (job.writer.IsSaving(step)) return true;
  // A new agent of a lost node may still find the step in its memory.
  const auto& members = job.group.members();
  const bool may_return = std::any_of(members.begin(), members.end(), [this](const Member& member) {
    return !context_.nodes.IsAlive(member.node);
  });
  if (!may_return && job.writer.WhyNotSaved(step).empty()) {
    job.writer.MarkFailed(step, "it is not in the memory of every node any more");
  }
  return may_return;
}

void CheckpointHandler::SendOrder(const JobRecord& job, const NodeId& node) {
  const auto& order = job.writer.order();
  if (!order.has_value()) return;
  const auto found = order->nodes.find(node);
  if (found == order->nodes.end() || found->second) return;
  proto::Command command;
  auto* persist = command.mutable_persist_snapshot();
  persist->set_job_id(job.id());
  persist->set_attempt(order->attempt);
  persist->set_step(order->step);
  if (const auto share = order->ranks.find(node); share != order->ranks.end()) {
    for (const uint32_t rank : share->second) persist->add_ranks(rank);
  }
  context_.Send(node, std::move(command));
}

void CheckpointHandler::SendOrderAgain(const JobRecord& job) {
  if (!job.writer.order().has_value()) return;
  for (const auto& [node, done] : job.writer.order()->nodes) SendOrder(job, node);
}

// An agent that rejoins may have lost any command that was on its way. Orders are idempotent. A
// grant is withdrawn first, because Grant sends it only once.
void CheckpointHandler::SendAgain(JobRecord& job, const NodeId& node) {
  SendOrder(job, node);
  const auto& copying = job.copier.order();
  if (copying.has_value() && copying->node == node) SendCopy(job);
  job.writer.WithdrawGrants(node);
  for (const auto& [step, commit] : job.writer.pending()) GrantIfWhole(job, step);
}

void CheckpointHandler::DropNode(JobRecord& job, const NodeId& node) {
  job.writer.DropNode(node);
  // A commit is complete on disk but for its manifest, which any node can write.
  job.writer.PassGrants(node, [this, &job](const NodeId& other) {
    const Node* found = context_.nodes.Find(other);
    return found != nullptr && found->reachable() &&
           (job.group.contains(other.value()) || job.snapshots.HasLeft(other));
  });
  for (const auto& [step, commit] : job.writer.pending()) GrantIfWhole(job, step);
  if (job.copier.DropNode(node)) OrderCopy(job);
}

// ------------------------------------------------------------------------------- the second tier

void CheckpointHandler::OrderCopy(JobRecord& job) {
  const uint64_t step = job.snapshots.committed_step();
  if (!job.live() || !job.snapshots.committed().contains(step)) return;
  const uint64_t commits = job.writer.commits();
  if (!job.copier.IsDue(job.spec().snapshot(), step, commits, job.closing())) return;
  // All nodes see the run's folder, so any reachable node can copy. Members come first: nodes that
  // the job has left may be removed sooner.
  std::vector<NodeId> nodes;
  for (const Member& member : job.group.members()) nodes.push_back(member.node);
  for (const auto& [id, memory] : job.snapshots.left()) nodes.push_back(id);
  const auto found = std::find_if(nodes.begin(), nodes.end(), [this](const NodeId& id) {
    const Node* node = context_.nodes.Find(id);
    return node != nullptr && node->reachable();
  });
  if (found == nodes.end()) return;
  job.copier.Begin({job.snapshots.committed().at(step), step, *found}, commits);
  SendCopy(job);
}

void CheckpointHandler::SendCopy(const JobRecord& job) {
  const CopyOrder& order = *job.copier.order();
  proto::Command command;
  auto* copy = command.mutable_copy_checkpoint();
  copy->set_job_id(job.id());
  copy->set_attempt(order.attempt);
  copy->set_step(order.step);
  context_.Send(order.node, std::move(command));
}

void CheckpointHandler::OnSnapshotCopied(const proto::Event& event) {
  const auto& copied = event.snapshot_copied();
  JobRecord* job = context_.jobs.Find(copied.job_id());
  if (job == nullptr || !job->live()) return;
  const size_t keep = std::max<uint32_t>(job->spec().snapshot().keep(), 1);
  if (!job->copier.Finish(copied.step(), copied.attempt(), keep)) return;
  auto* notification = context_.AddNotification(job->id()).mutable_snapshot();
  notification->set_step(copied.step());
  notification->set_tier("shared");
  notification->set_seconds(ToSeconds(Duration(copied.took_ns())));
  notification->set_bytes(copied.bytes());
  OrderCopy(*job);
  closer_.CloseIfSaved(*job);
}

void CheckpointHandler::CopyFailed(JobRecord& job, const proto::SnapshotFailed& failed) {
  if (!job.copier.Fail(failed.step(), failed.reason())) return;
  context_.AddMessage(job.id(), proto::MessageNotification::WARNING,
                      "the checkpoint of step " + std::to_string(failed.step()) +
                          " was not copied to " + job.spec().snapshot().copy_to() + ": " +
                          failed.reason() + "; it is on disk, and training continues");
  OrderCopy(job);
  closer_.CloseIfSaved(job);
}

// The end of the job makes the newest checkpoint due for a copy even if the policy copies only each
// n-th one, so a copy may begin here.
bool CheckpointHandler::CopiesSettled(JobRecord& job) {
  if (job.spec().snapshot().copy_to().empty()) return true;
  OrderCopy(job);
  return !job.copier.order().has_value();
}

void CheckpointHandler::NoteFetched(JobRecord& job) {
  if (job.snapshots.restore().tier() != proto::Restore::TIER_SHARED) return;
  job.snapshots.NoteFetched();
  context_.deadlines.Set(DeadlineKind::kStart, job.id(),
                         context_.now + context_.options.start_limit);
  context_.AddMessage(job.id(), proto::MessageNotification::INFO,
                      "the checkpoint of step " + std::to_string(job.snapshots.restore().step()) +
                          " has come back from " + job.spec().snapshot().copy_to() +
                          ", every byte verified");
}

}  // namespace longhaul::runtime::controller
