// Snapshots: which states exist where, which one a new epoch starts from, and when one on disk
// counts.
#include <algorithm>
#include <utility>

#include "runtime/internal/controller_state.h"

namespace longhaul::runtime {
namespace {

// Steps whose pieces may be on their way to disk at once; more means that commits never come.
constexpr size_t kMaxPending = 8;

bool Holds(const internal::Member& member, uint64_t step) {
  return member.sealed[0] == step || member.sealed[1] == step;
}

void Remember(internal::Member& member, uint64_t step) {
  if (Holds(member, step)) return;
  if (step > member.sealed[0]) {
    member.sealed[1] = member.sealed[0];
    member.sealed[0] = step;
  } else {
    member.sealed[1] = std::max(member.sealed[1], step);
  }
}

}  // namespace

void Controller::State::OnSnapshotSealed(const wire::Event& event) {
  const auto& sealed = event.snapshot_sealed();
  size_t index = 0;
  Job* job = CurrentJob(event, sealed.job_id(), sealed.epoch(), &index);
  if (job == nullptr || job->undecided || sealed.step() == 0) return;
  // Only of steps under this epoch's lease, and not back in time.
  if (sealed.step() >= job->lease.end_step() || sealed.step() <= job->memory_step) return;
  const Seconds blocked(ToSeconds(Duration(sealed.blocked_ns())));
  if (sealed.whole_job()) {
    for (Member& member : job->gang) Remember(member, sealed.step());
    return CompleteSnapshot(*job, sealed.step(), blocked, sealed.bytes());
  }
  if (Holds(job->gang[index], sealed.step())) return;
  Remember(job->gang[index], sealed.step());
  if (++job->seals[sealed.step()] < job->gang.size()) return;
  CompleteSnapshot(*job, sealed.step(), blocked, sealed.bytes() * job->gang.size());
}

// Every rank holds the state after `step`: from here on it can be gone back to.
void Controller::State::CompleteSnapshot(Job& job, uint64_t step, Seconds blocked, uint64_t bytes) {
  job.seals.erase(job.seals.begin(), job.seals.upper_bound(step));
  job.memory_step = step;
  ++job.snapshots;
  // A commit that the lease doesn't cover changes nothing; the event was checked against it.
  if (!job.data.Commit(job.epoch, step).ok()) return;
  job.ledger.Settle(std::min(job.memory_step, job.committed_step));
  auto* notice = AddNotice(job.spec.id()).mutable_snapshot();
  notice->set_step(step);
  notice->set_tier("memory");
  notice->set_seconds(blocked.count());
  notice->set_bytes(bytes);
  job.interval.ObserveSnapshot(blocked);
  scheduler_.Snapshot(JobId(job.spec.id()), now_);
  if (!job.retreat.has_value()) return UpdateInterval(job);
  if (job.retreat->stage == internal::Retreat::Stage::kSnapshot) StopForRetreat(job);
}

void Controller::State::UpdateInterval(Job& job) {
  if (!job.interval.Update()) return;
  Say(job.spec.id(), wire::MessageNotice::INFO,
      "a snapshot every " + std::to_string(job.interval.steps()) +
          " steps from now on: " + job.interval.reason());
  for (const Member& member : job.gang) {
    wire::Command command;
    auto* set = command.mutable_set_snapshot_interval();
    set->set_job_id(job.spec.id());
    set->set_epoch(job.epoch);
    set->set_steps(job.interval.steps());
    Send(member.node, std::move(command));
  }
}

void Controller::State::OnSnapshotPersisted(const wire::Event& event) {
  const auto& persisted = event.snapshot_persisted();
  Job* job = FindJob(persisted.job_id());
  if (job == nullptr || !job->live() || persisted.step() == 0) return;
  const bool known = MemberOf(*job, event.node()).has_value() ||
                     (job->gang.empty() && job->left.contains(NodeId(event.node())));
  if (!known || persisted.epoch() > job->epoch) return;
  if (persisted.step() <= job->committed_step) return;
  // A state of an older epoch counts as long as the present one continues it.
  if (persisted.epoch() < job->epoch && persisted.step() > job->restore.step()) return;
  internal::PendingCommit& commit = job->pending[persisted.step()];
  if (commit.epoch != persisted.epoch()) commit = {};
  commit.epoch = persisted.epoch();
  commit.committer = NodeId(event.node());
  commit.files.insert(commit.files.end(), persisted.files().begin(), persisted.files().end());
  ++commit.pieces;
  while (job->pending.size() > kMaxPending) job->pending.erase(job->pending.begin());
  GrantIfWhole(*job, persisted.step());
}

void Controller::State::GrantIfWhole(Job& job, uint64_t step) {
  const auto found = job.pending.find(step);
  if (found == job.pending.end() || found->second.granted) return;
  internal::PendingCommit& commit = found->second;
  const size_t wanted = job.spec.snapshot().replicated() ? 1 : job.spec.nodes();
  if (commit.pieces < wanted) return;
  commit.granted = true;
  wire::Command command;
  auto* grant = command.mutable_commit_snapshot();
  grant->set_job_id(job.spec.id());
  grant->set_epoch(commit.epoch);
  grant->set_step(step);
  grant->set_world(job.world());
  for (const auto& file : commit.files) *grant->add_files() = file;
  Send(commit.committer, std::move(command));
}

void Controller::State::OnSnapshotCommitted(const wire::Event& event) {
  const auto& committed = event.snapshot_committed();
  Job* job = FindJob(committed.job_id());
  if (job == nullptr || !job->live() || committed.epoch() > job->epoch) return;
  const auto pending = job->pending.find(committed.step());
  if (pending == job->pending.end() || pending->second.epoch != committed.epoch()) return;
  job->pending.erase(job->pending.begin(), std::next(pending));
  job->committed[committed.step()] = committed.epoch();
  const size_t keep = std::max<uint32_t>(job->spec.snapshot().keep(), 1);
  while (job->committed.size() > keep) job->committed.erase(job->committed.begin());
  ++job->commits;
  if (committed.step() > job->committed_step) {
    job->committed_step = committed.step();
    job->committed_epoch = committed.epoch();
    job->save_failure.clear();
    job->ledger.Settle(std::min(job->memory_step, job->committed_step));
    auto* notice = AddNotice(job->spec.id()).mutable_snapshot();
    notice->set_step(committed.step());
    notice->set_tier("disk");
  }
  CloseIfSaved(*job);
  AdvanceRetreat(*job);
}

void Controller::State::OnSnapshotFailed(const wire::Event& event) {
  const auto& failed = event.snapshot_failed();
  Job* job = FindJob(failed.job_id());
  if (job == nullptr || !job->live()) return;
  const auto index = MemberOf(*job, event.node());
  if (!index.has_value()) return;
  if (!failed.while_restoring() && job->retreat.has_value()) {
    job->save_failure = failed.reason();
    return AdvanceRetreat(*job);
  }
  if (!failed.while_restoring()) {
    Say(failed.job_id(), wire::MessageNotice::ERROR,
        "snapshot of step " + std::to_string(failed.step()) + " could not be saved on " +
            event.node() + ": " + failed.reason() + "; training goes on");
    job->save_failure = failed.reason();
    return CloseIfSaved(*job);
  }
  // This copy is never offered again.
  if (failed.tier() == wire::Restore::TIER_MEMORY) {
    for (uint64_t& sealed : job->gang[*index].sealed) sealed = sealed == failed.step() ? 0 : sealed;
    if (job->gang[*index].sealed[0] == 0) {
      std::swap(job->gang[*index].sealed[0], job->gang[*index].sealed[1]);
    }
  } else {
    job->committed.erase(failed.step());
    job->committed_step = job->committed.empty() ? 0 : job->committed.rbegin()->first;
    job->committed_epoch = job->committed.empty() ? 0 : job->committed.rbegin()->second;
  }
  if (failed.epoch() != job->epoch) return;
  const char* tier = failed.tier() == wire::Restore::TIER_MEMORY ? "memory" : "disk";
  NoteFault(*job,
            {"storage",
             "the copy in " + std::string(tier) + " of step " + std::to_string(failed.step()) +
                 " is no good on " + event.node() + ": " + failed.reason(),
             event.node(), static_cast<int32_t>(failed.rank()),
             InstantFromNanoseconds(event.at_ns()), true});
  TryDecide(*job);
}

// The newest state that every node can have, from its own memory or from disk. Ranks never choose
// alone: mixed steps would be silent nonsense.
wire::Restore Controller::State::ChooseRestore(const Job& job) const {
  std::vector<uint64_t> steps;
  for (const Member& member : job.gang) {
    for (const uint64_t sealed : member.sealed) steps.push_back(sealed);
    if (steps.size() > 64) break;  // a complete step is in every memory or on disk
  }
  for (const auto& [step, epoch] : job.committed) steps.push_back(step);
  std::sort(steps.rbegin(), steps.rend());
  wire::Restore restore;
  for (const uint64_t step : steps) {
    if (step == 0) break;
    const bool on_disk = job.committed.contains(step);
    const bool everywhere =
        std::all_of(job.gang.begin(), job.gang.end(),
                    [&](const Member& member) { return on_disk || Holds(member, step); });
    if (!everywhere) continue;
    restore.set_step(step);
    const bool all_in_memory =
        std::all_of(job.gang.begin(), job.gang.end(),
                    [&](const Member& member) { return Holds(member, step); });
    restore.set_tier(all_in_memory ? wire::Restore::TIER_MEMORY : wire::Restore::TIER_DISK);
    if (on_disk) restore.set_saved_epoch(job.committed.at(step));
    break;
  }
  return restore;
}

wire::Restore Controller::State::RestoreFor(const Job& job, size_t member) const {
  wire::Restore restore = job.restore;
  if (restore.step() == 0) return restore;
  const bool in_memory = Holds(job.gang[member], restore.step());
  restore.set_tier(in_memory ? wire::Restore::TIER_MEMORY : wire::Restore::TIER_DISK);
  return restore;
}

}  // namespace longhaul::runtime
