// Snapshots: which states exist where, which one a new epoch starts from, and when one on disk
// counts.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "runtime/cluster/elastic.h"
#include "runtime/internal/controller_state.h"

namespace longhaul::runtime {
namespace {

// Steps whose pieces may be on their way to disk at once; more means that commits never come.
constexpr size_t kMaxPending = 8;

using Newest = std::array<uint64_t, 2>;  // steps, newest first, 0 = none

bool Has(const Newest& steps, uint64_t step) { return steps[0] == step || steps[1] == step; }

bool Holds(const internal::Member& member, uint64_t step) { return Has(member.sealed, step); }

void Remember(Newest& steps, uint64_t step) {
  if (Has(steps, step)) return;
  if (step > steps[0]) {
    steps[1] = steps[0];
    steps[0] = step;
  } else {
    steps[1] = std::max(steps[1], step);
  }
}

void Forget(Newest& steps, uint64_t step) {
  for (uint64_t& each : steps) each = each == step ? 0 : each;
  if (steps[0] == 0) std::swap(steps[0], steps[1]);
}

// Whether the present epoch continues the state that `epoch` sealed after `step`: none since has
// gone back behind it.
bool Continues(const internal::Job& job, uint64_t epoch, uint64_t step) {
  if (epoch > job.epoch || !job.restored.contains(epoch)) return false;
  if (step <= job.restored.at(epoch)) return false;
  return std::all_of(job.restored.upper_bound(epoch), job.restored.end(),
                     [step](const auto& later) { return later.second >= step; });
}

}  // namespace

const char* internal::TierName(wire::Restore::Tier tier) {
  if (tier == wire::Restore::TIER_MEMORY) return "memory";
  if (tier == wire::Restore::TIER_SHARED) return "shared storage";
  if (tier == wire::Restore::TIER_PIECES) return "memory in another layout";
  return tier == wire::Restore::TIER_PEER ? "a peer's memory" : "disk";
}

// A new agent has verified what the one before it left in memory: what belongs to the present state
// of a job that has its place there can be restored from, the rest is to be released.
void Controller::State::AdoptMemory(const Node& node, uint64_t life_before) {
  std::map<std::string, std::map<uint64_t, std::set<uint32_t>>> own, copies;  // ranks by step
  for (const auto& held : node.facts.held()) {
    auto& ranks = held.copy() ? copies[held.job_id()] : own[held.job_id()];
    own[held.job_id()];  // every job once
    const auto job = jobs_.find(held.job_id());
    if (job == jobs_.end() || !Continues(job->second, held.epoch(), held.step())) continue;
    // What was sealed under other ranks serves where nodes are alike, and only there.
    const bool moved = held.epoch() < job->second.placed_epoch;
    if (moved && (held.copy() || !NodesAreAlike(job->second.spec))) continue;
    ranks[held.step()].insert(held.rank());
  }
  for (const auto& [id, steps] : own) {
    Job* job = FindJob(id);
    const bool wanted =
        job != nullptr && job->live() && MemberOf(*job, node.id.value()).has_value();
    if (!wanted) {
      wire::Command command;
      command.mutable_forget_job()->set_job_id(id);
      Send(node.id, std::move(command));
      continue;
    }
    AdoptPieces(*job, node, life_before);
    const uint32_t local = job->spec.processes_per_node();
    const auto whole = [local](const std::set<uint32_t>& ranks, uint32_t first) {
      return std::distance(ranks.lower_bound(first), ranks.lower_bound(first + local)) == local;
    };
    const size_t index = *MemberOf(*job, node.id.value());
    Newest& sealed = job->gang[index].sealed;
    for (const auto& [step, ranks] : steps) {
      if (whole(ranks, job->gang[index].arena_first_rank)) Remember(sealed, step);
    }
    for (size_t i = 0; i < job->gang.size(); ++i) {
      Member& member = job->gang[i];
      if (member.holder != node.id || member.holder_incarnation != life_before) continue;
      member.holder_incarnation = node.incarnation;
      member.copied = {};
      for (const auto& [step, ranks] : copies[id]) {
        if (whole(ranks, static_cast<uint32_t>(i) * local)) Remember(member.copied, step);
      }
    }
    if (sealed[0] == 0) continue;
    Say(id, wire::MessageNotice::INFO,
        "the new agent of " + node.id.value() + " has adopted the memory of the one before: step " +
            std::to_string(sealed[0]) + " is there");
  }
}

void Controller::State::OnSnapshotSealed(const wire::Event& event) {
  const auto& sealed = event.snapshot_sealed();
  size_t index = 0;
  Job* job = CurrentJob(event, sealed.job_id(), sealed.epoch(), &index);
  if (job == nullptr || job->undecided || sealed.step() == 0) return;
  // Only of steps under this epoch's lease, and not back in time.
  if (sealed.step() >= job->lease.end_step() || sealed.step() <= job->memory_step) return;
  if (sealed.poisoned()) {
    return Say(sealed.job_id(), wire::MessageNotice::ERROR,
               "the snapshot of step " + std::to_string(sealed.step()) + " on " + event.node() +
                   " has NaN or infinity: nothing will be restored from it");
  }
  const Seconds blocked(ToSeconds(Duration(sealed.blocked_ns())));
  if (sealed.whole_job()) {
    for (Member& member : job->gang) Remember(member.sealed, sealed.step());
    NoteWay(*job, sealed);
    return CompleteSnapshot(*job, sealed.step(), blocked, sealed.bytes());
  }
  if (Holds(job->gang[index], sealed.step())) return;
  NoteContents(*job, index, sealed);
  Remember(job->gang[index].sealed, sealed.step());
  if (++job->seals[sealed.step()] < job->gang.size()) return;
  NoteWay(*job, sealed);
  CompleteSnapshot(*job, sealed.step(), blocked, sealed.bytes() * job->gang.size());
}

// How the last node to seal took it.
void Controller::State::NoteWay(Job& job, const wire::SnapshotSealed& sealed) {
  const auto way = static_cast<size_t>(sealed.way());
  ++job.snapshot_ways[way < job.snapshot_ways.size() ? way : 0];
  const Seconds waited(ToSeconds(Duration(sealed.waited_ns())));
  job.slot_waits = job.slot_waits + waited;
  job.longest_slot_wait = std::max(job.longest_slot_wait, waited);
}

void Controller::State::OnSnapshotReplicated(const wire::Event& event) {
  const auto& replicated = event.snapshot_replicated();
  Job* job = FindJob(replicated.job_id());
  const Node* holder = FindNode(NodeId(replicated.holder()));
  if (job == nullptr || !job->live() || holder == nullptr || replicated.step() == 0) return;
  const auto index = MemberOf(*job, event.node());
  if (!index.has_value() || replicated.epoch() > job->epoch) return;
  // A state of an older epoch counts as long as the present one continues it.
  if (replicated.epoch() < job->epoch && replicated.step() > job->restore.step()) return;
  if (replicated.epoch() < job->placed_epoch) return;  // of other ranks
  Member& member = job->gang[*index];
  if (member.holder != holder->id || member.holder_incarnation != holder->incarnation) {
    member.copied = {};
    member.holder = holder->id;
    member.holder_incarnation = holder->incarnation;
  }
  Remember(member.copied, replicated.step());
  job->interval.ObserveCopy(Seconds(ToSeconds(Duration(replicated.took_ns()))));
}

// Every rank holds the state after `step`: from here on it can be gone back to.
void Controller::State::CompleteSnapshot(Job& job, uint64_t step, Seconds blocked, uint64_t bytes) {
  job.seals.erase(job.seals.begin(), job.seals.upper_bound(step));
  job.spreads.erase(job.spreads.begin(), job.spreads.upper_bound(step));
  job.memory_step = step;
  job.complete[step] = job.epoch;
  if (job.complete.size() > kMaxPending) job.complete.erase(job.complete.begin());
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
  OrderPersist(job);
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
  const bool known =
      MemberOf(*job, event.node()).has_value() || job->left.contains(NodeId(event.node()));
  if (!known || persisted.epoch() > job->epoch) return;
  PersistDone(*job, NodeId(event.node()), persisted.epoch(), persisted.step());
  if (persisted.step() <= job->committed_step) return OrderPersist(*job);
  // A state of an older epoch counts as long as the present one continues it.
  if (persisted.epoch() < job->epoch && persisted.step() > job->restore.step()) return;
  internal::PendingCommit& commit = job->pending[persisted.step()];
  if (commit.epoch != persisted.epoch()) commit = {};
  commit.epoch = persisted.epoch();
  commit.committer = NodeId(event.node());
  // A new agent of a node may tell again what the one before it has told, or more of it.
  commit.nodes.insert(event.node());
  const uint32_t world = NodesOfEpoch(*job, commit.epoch) * job->spec.processes_per_node();
  for (const auto& file : persisted.files()) {
    if (file.rank() < world) commit.files[file.rank()] = file;
  }
  while (job->pending.size() > kMaxPending) job->pending.erase(job->pending.begin());
  GrantIfWhole(*job, persisted.step());
  OrderPersist(*job);
}

void Controller::State::GrantIfWhole(Job& job, uint64_t step) {
  const auto found = job.pending.find(step);
  if (found == job.pending.end() || found->second.granted) return;
  internal::PendingCommit& commit = found->second;
  if (!IsWhole(job, commit, step)) return;
  commit.granted = true;
  wire::Command command;
  auto* grant = command.mutable_commit_snapshot();
  grant->set_job_id(job.spec.id());
  grant->set_epoch(commit.epoch);
  grant->set_step(step);
  grant->set_world(NodesOfEpoch(job, commit.epoch) * job.spec.processes_per_node());
  const auto later = job.validation_losses.upper_bound(step);
  if (later != job.validation_losses.begin() && std::isfinite(std::prev(later)->second)) {
    grant->set_validation_loss(std::prev(later)->second);
  }
  for (const auto& [rank, file] : commit.files) *grant->add_files() = file;
  // With replicated state one file serves all, and nobody has to be named.
  const auto* contents = ContentsOf(job, commit.epoch, step);
  if (contents != nullptr && !job.spec.snapshot().replicated()) {
    std::vector<uint32_t> written;
    for (const auto& [rank, file] : commit.files) written.push_back(rank);
    const auto also = AlsoServed(contents->ranks, written);
    for (int i = 0; i < grant->files_size(); ++i) {
      for (const uint32_t rank : also[static_cast<size_t>(i)])
        grant->mutable_files(i)->add_also(rank);
    }
  }
  // With slow copies and few kept, pruning would take every copy's source away.
  if (job.copying.has_value()) grant->set_copying_step(job.copying->step);
  Send(commit.committer, std::move(command));
}

void Controller::State::OnSnapshotCommitted(const wire::Event& event) {
  const auto& committed = event.snapshot_committed();
  Job* job = FindJob(committed.job_id());
  if (job == nullptr || !job->live() || committed.epoch() > job->epoch) return;
  const auto pending = job->pending.find(committed.step());
  if (pending == job->pending.end() || pending->second.epoch != committed.epoch()) return;
  job->pending.erase(job->pending.begin(), std::next(pending));
  job->contents.erase(job->contents.begin(), job->contents.upper_bound(committed.step()));
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
  OrderCopy(*job);
  FreeLeft(*job);
  CloseIfSaved(*job);
  AdvanceRetreat(*job);
}

void Controller::State::OnSnapshotFailed(const wire::Event& event) {
  const auto& failed = event.snapshot_failed();
  Job* job = FindJob(failed.job_id());
  if (job == nullptr || !job->live()) return;
  if (!failed.while_restoring() && failed.tier() == wire::Restore::TIER_DISK) {
    PersistFailed(*job, failed, NodeId(event.node()));
    OrderPersist(*job);
    if (failed.overtaken()) return;
  }
  if (!failed.while_restoring() && failed.tier() == wire::Restore::TIER_SHARED) {
    return CopyFailed(*job, failed);
  }
  const auto index = MemberOf(*job, event.node());
  if (!index.has_value()) return;
  if (failed.tier() == wire::Restore::TIER_PIECES) {
    ForgetPieces(*job, failed);
    if (failed.epoch() != job->epoch) return;
    if (!failed.while_restoring()) {
      return Say(failed.job_id(), wire::MessageNotice::WARNING,
                 "step " + std::to_string(failed.step()) + " was restored on " + event.node() +
                     " all the same, but pieces of it are no good: " + failed.reason());
    }
  }
  if (!failed.while_restoring() && failed.tier() == wire::Restore::TIER_PEER) {
    return Say(failed.job_id(), wire::MessageNotice::WARNING,
               "step " + std::to_string(failed.step()) + " of " + event.node() +
                   " has no copy in another node's memory: " + failed.reason());
  }
  if (!failed.while_restoring()) NoteSaveFailure(*job, *index, failed);
  if (!failed.while_restoring() && job->retreat.has_value()) {
    return AdvanceRetreat(*job);
  }
  if (!failed.while_restoring()) {
    Say(failed.job_id(), wire::MessageNotice::ERROR,
        "snapshot of step " + std::to_string(failed.step()) + " could not be saved on " +
            event.node() + ": " + failed.reason() + "; training goes on");
    return CloseIfSaved(*job);
  }
  // This copy is never offered again.
  if (failed.tier() == wire::Restore::TIER_MEMORY) {
    Forget(job->gang[*index].sealed, failed.step());
    DropPieces(*job, failed.step(), job->gang[*index].node, /*copy=*/false);
  } else if (failed.tier() == wire::Restore::TIER_PEER) {
    ForgetCopy(*job, *index, failed.step());
  } else if (failed.tier() == wire::Restore::TIER_SHARED) {
    job->copies.erase(failed.step());
  } else if (failed.tier() != wire::Restore::TIER_PIECES) {
    job->committed.erase(failed.step());
    job->committed_step = job->committed.empty() ? 0 : job->committed.rbegin()->first;
    job->committed_epoch = job->committed.empty() ? 0 : job->committed.rbegin()->second;
  }
  if (failed.epoch() != job->epoch) return;
  const char* tier = internal::TierName(failed.tier());
  NoteFault(*job,
            {"storage",
             "the copy in " + std::string(tier) + " of step " + std::to_string(failed.step()) +
                 " is no good on " + event.node() + ": " + failed.reason(),
             event.node(), static_cast<int32_t>(failed.rank()),
             InstantFromNanoseconds(event.at_ns()), true});
  TryDecide(*job);
}

// An agent tries once more when its workers have ended; a manifest is written once.
void Controller::State::NoteSaveFailure(Job& job, size_t member,
                                        const wire::SnapshotFailed& failed) {
  const auto pending = job.pending.find(failed.step());
  const bool of_commit = pending != job.pending.end() && pending->second.granted &&
                         pending->second.epoch == failed.epoch();
  job.save_failure = failed.reason();
  job.save_failure_step = failed.step();
  const bool ended =
      job.gang[member].closed || job.gang[member].ranks_done == job.spec.processes_per_node();
  job.save_tried_again = of_commit || ended;
}

bool Controller::State::SaveFailed(const Job& job) {
  return !job.save_failure.empty() && job.save_tried_again &&
         job.save_failure_step >= job.memory_step;
}

uint32_t Controller::State::NodesOfEpoch(const Job& job, uint64_t epoch) {
  const auto found = job.nodes_of_epoch.find(epoch);
  return found == job.nodes_of_epoch.end() ? job.spec.nodes() : found->second;
}

const Controller::State::Node* Controller::State::CopyOf(const Job& job, size_t member,
                                                         uint64_t step) const {
  const auto reachable = [](const Node* node) {
    return node != nullptr && node->connected && !node->lost && node->facts.peer_port() != 0;
  };
  if (peers_ == 0) return nullptr;
  if (NodesAreAlike(job.spec)) {
    // Any other node's own state serves all.
    for (size_t i = 0; i < job.gang.size(); ++i) {
      if (i == member || !Holds(job.gang[i], step)) continue;
      const Node* node = FindNode(job.gang[i].node);
      if (reachable(node)) return node;
    }
    if (job.spec.snapshot().replicated()) return nullptr;
  }
  const Member& wanting = job.gang[member];
  if (!Has(wanting.copied, step)) return nullptr;
  const Node* node = FindNode(wanting.holder);
  return reachable(node) && node->incarnation == wanting.holder_incarnation ? node : nullptr;
}

// A copy that failed is never offered again: a member's own, as far as other places go, or the one
// that is kept for the place.
void Controller::State::ForgetCopy(Job& job, size_t member, uint64_t step) {
  const Node* source = CopyOf(job, member, step);
  for (Member& other : job.gang) {
    if (source == nullptr || other.node != source->id || !Holds(other, step)) continue;
    if (NodesAreAlike(job.spec)) return Forget(other.sealed, step);
  }
  Forget(job.gang[member].copied, step);
  if (source != nullptr) DropPieces(job, step, source->id, /*copy=*/true);
}

// The next place of the gang on another host, or at least on another node.
const Controller::State::Node* Controller::State::PeerOf(const Job& job, size_t member) const {
  if (peers_ == 0) return nullptr;
  const Node* own = FindNode(job.gang[member].node);
  const Node* on_this_host = nullptr;
  for (size_t i = 1; i < job.gang.size() && own != nullptr; ++i) {
    const Node* node = FindNode(job.gang[(member + i) % job.gang.size()].node);
    if (node == nullptr || node == own || node->facts.peer_port() == 0) continue;
    if (node->facts.host() != own->facts.host()) return node;
    if (on_this_host == nullptr) on_this_host = node;
  }
  return on_this_host;
}

// The newest state that every node can have: from its own memory, a peer's or disk. Ranks never
// choose alone: mixed steps would be silent nonsense.
wire::Restore Controller::State::ChooseRestore(const Job& job) const {
  std::vector<uint64_t> steps;
  for (const Member& member : job.gang) {
    steps.insert(steps.end(), member.sealed.begin(), member.sealed.end());
    steps.insert(steps.end(), member.copied.begin(), member.copied.end());
    if (steps.size() > 64) break;  // a complete step is in every memory or on disk
  }
  for (const auto& [step, spread] : job.spreads) steps.push_back(step);
  for (const auto& [step, epoch] : job.committed) steps.push_back(step);
  for (const auto& [step, epoch] : job.copies) steps.push_back(step);
  std::sort(steps.rbegin(), steps.rend());
  wire::Restore restore;
  for (const uint64_t step : steps) {
    if (step == 0) break;
    const bool on_disk = job.committed.contains(step);
    const bool saved = on_disk || job.copies.contains(step);
    bool in_memory = true;  // of their own, all of them
    bool in_memories = true;
    for (size_t i = 0; i < job.gang.size() && (in_memories || saved); ++i) {
      if (Holds(job.gang[i], step)) continue;
      in_memory = false;
      in_memories = in_memories && CopyOf(job, i, step) != nullptr;
    }
    const auto spread = in_memories ? internal::Spread() : SpreadOf(job, step);
    const bool in_pieces = !in_memories && IsWhole(job, spread);
    if (!saved && !in_memories && !in_pieces) continue;
    restore.set_step(step);
    restore.set_tier(in_memory     ? wire::Restore::TIER_MEMORY
                     : in_memories ? wire::Restore::TIER_PEER
                     : in_pieces   ? wire::Restore::TIER_PIECES
                     : on_disk     ? wire::Restore::TIER_DISK
                                   : wire::Restore::TIER_SHARED);
    if (saved) restore.set_saved_epoch(on_disk ? job.committed.at(step) : job.copies.at(step));
    if (in_pieces) restore.set_saved_epoch(spread.epoch);
    break;
  }
  return restore;
}

wire::Restore Controller::State::RestoreFor(const Job& job, size_t member) const {
  wire::Restore restore = job.restore;
  if (restore.step() == 0) return restore;
  if (Holds(job.gang[member], restore.step())) {
    restore.set_tier(wire::Restore::TIER_MEMORY);
  } else if (restore.tier() == wire::Restore::TIER_PIECES) {
    // Not a whole copy in place of its own arena: that may hold pieces for others.
    AddPieces(job, member, restore);
  } else if (const Node* source = CopyOf(job, member, restore.step())) {
    restore.set_tier(wire::Restore::TIER_PEER);
    restore.set_source_address(source->facts.address());
    restore.set_source_port(source->facts.peer_port());
    const auto place = MemberOf(job, source->id.value());
    const bool own = place.has_value() && Holds(job.gang[*place], restore.step());
    if (own && NodesAreAlike(job.spec)) {
      restore.set_source_rank(job.gang[*place].arena_first_rank);
    }
  } else {
    restore.set_tier(wire::Restore::TIER_DISK);
  }
  return restore;
}

}  // namespace longhaul::runtime
