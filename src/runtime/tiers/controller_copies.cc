// The second tier: committed checkpoints are copied there, behind the run and one at a time, and
// come back from there when the disk has none that is newer and good.
#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/internal/controller_state.h"

namespace longhaul::runtime {

void Controller::State::OrderCopy(Job& job) {
  const wire::SnapshotPolicy& policy = job.spec.snapshot();
  if (policy.copy_to().empty() || !job.live() || job.copying.has_value()) return;
  const uint64_t step = job.committed_step;
  if (step <= job.copied_step || step <= job.uncopied_step || !job.committed.contains(step)) return;
  const uint64_t since = job.commits - std::min(job.commits, job.commits_copied);
  if (!job.closing.has_value() && since < std::max<uint64_t>(policy.copy_every(), 1)) return;
  std::vector<NodeId> nodes;
  for (const Member& member : job.gang) nodes.push_back(member.node);
  for (const auto& [id, memory] : job.left) nodes.push_back(id);
  const auto found = std::find_if(nodes.begin(), nodes.end(), [this](const NodeId& id) {
    const Node* node = FindNode(id);
    return node != nullptr && node->connected && !node->lost;
  });
  if (found == nodes.end()) return;
  job.commits_copied = job.commits;
  job.copying = {job.committed.at(step), step, *found};
  SendCopy(job);
}

void Controller::State::SendCopy(const Job& job) {
  if (!job.copying.has_value()) return;
  wire::Command command;
  auto* copy = command.mutable_copy_checkpoint();
  copy->set_job_id(job.spec.id());
  copy->set_epoch(job.copying->epoch);
  copy->set_step(job.copying->step);
  Send(job.copying->node, std::move(command));
}

void Controller::State::OnSnapshotCopied(const wire::Event& event) {
  const auto& copied = event.snapshot_copied();
  Job* job = FindJob(copied.job_id());
  if (job == nullptr || !job->live() || !job->copying.has_value()) return;
  if (job->copying->step != copied.step() || job->copying->epoch != copied.epoch()) return;
  job->copying.reset();
  job->copies[copied.step()] = copied.epoch();
  job->copied_step = std::max(job->copied_step, copied.step());
  const size_t keep = std::max<uint32_t>(job->spec.snapshot().keep(), 1);
  while (job->copies.size() > keep) job->copies.erase(job->copies.begin());
  auto* notice = AddNotice(job->spec.id()).mutable_snapshot();
  notice->set_step(copied.step());
  notice->set_tier("shared");
  notice->set_seconds(ToSeconds(Duration(copied.took_ns())));
  notice->set_bytes(copied.bytes());
  OrderCopy(*job);
  CloseIfSaved(*job);
}

void Controller::State::CopyFailed(Job& job, const wire::SnapshotFailed& failed) {
  if (!job.copying.has_value() || job.copying->step != failed.step()) return;
  job.copying.reset();
  job.uncopied_step = std::max(job.uncopied_step, failed.step());
  job.copy_failure = failed.reason();
  Say(job.spec.id(), wire::MessageNotice::WARNING,
      "the checkpoint of step " + std::to_string(failed.step()) + " was not copied to " +
          job.spec.snapshot().copy_to() + ": " + failed.reason() +
          "; it is on disk, and training goes on");
  OrderCopy(job);
  CloseIfSaved(job);
}

bool Controller::State::CopiesSettled(Job& job) {
  if (job.spec.snapshot().copy_to().empty()) return true;
  OrderCopy(job);
  return !job.copying.has_value();
}

void Controller::State::NoteFetched(Job& job) {
  if (job.restore.tier() != wire::Restore::TIER_SHARED) return;
  job.restore.set_tier(wire::Restore::TIER_DISK);
  deadlines_.Set(internal::DeadlineKind::kStart, job.spec.id(), now_ + options_.start_limit);
  const uint64_t step = job.restore.step();
  job.committed[step] = job.restore.saved_epoch();
  job.committed_step = job.committed.rbegin()->first;
  job.committed_epoch = job.committed.rbegin()->second;
  Say(job.spec.id(), wire::MessageNotice::INFO,
      "the checkpoint of step " + std::to_string(step) + " has come back from " +
          job.spec.snapshot().copy_to() + ", every byte verified");
}

}  // namespace longhaul::runtime
