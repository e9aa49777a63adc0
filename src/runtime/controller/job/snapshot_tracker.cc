#include "runtime/controller/job/snapshot_tracker.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/scheduling/elastic.h"

namespace longhaul::runtime::controller {

namespace {

// Complete steps that are remembered; memories hold fewer.
constexpr size_t kMostComplete = 8;
constexpr size_t kRememberedAttempts = 64;  // snapshots in memory are of the newest ones

using Ranks = std::map<uint64_t, std::set<uint32_t>>;  // by step

// Whether all ranks of a node are there, from `first` on.
// A snapshot of a node is usable only as a whole: a missing rank makes the step unusable for the
// gang.
bool HasAll(const std::set<uint32_t>& ranks, uint32_t first, uint32_t local) {
  return std::distance(ranks.lower_bound(first), ranks.lower_bound(first + local)) == local;
}

}  // namespace

const char* TierName(proto::Restore::Tier tier) {
  if (tier == proto::Restore::TIER_MEMORY) return "memory";
  if (tier == proto::Restore::TIER_SHARED) return "shared storage";
  if (tier == proto::Restore::TIER_PIECES) return "memory in another layout";
  return tier == proto::Restore::TIER_PEER ? "a peer's memory" : "disk";
}

void SnapshotTracker::BeginAttempt(uint64_t attempt, uint32_t nodes,
                                   const proto::Restore& restore) {
  const uint64_t from = restore.step();
  nodes_of_attempt_[attempt] = nodes;
  restore_ = restore;
  restored_[attempt] = from;
  if (restored_.size() > kRememberedAttempts) restored_.erase(restored_.begin());
  // What was sealed after the step that all ranks go back to never happened.
  for (PlaceMemory& place : places_) {
    place.sealed.RemoveAbove(from);
    place.copied.RemoveAbove(from);
  }
  // Seals of the earlier attempt may be incomplete. Counting them together with those of the new
  // attempt would declare a step complete that no attempt has in full.
  seals_.clear();
  memory_step_ = std::min(memory_step_, from);
  complete_.erase(complete_.upper_bound(from), complete_.end());
  spreads_.erase(spreads_.upper_bound(from), spreads_.end());
}

// What the node of a place of the new gang has in memory that still serves there.
PlaceMemory SnapshotTracker::MemoryAt(const GangView& view, const std::vector<NodeId>& target,
                                      size_t place) const {
  const NodeId& id = target[place];
  // With another number of nodes, the same place has other ranks.
  const bool same_size = view.group.size() == target.size();
  const bool alike = NodesAreAlike(view.spec);
  PlaceMemory memory;
  // Copies belong to a place, whichever node has it now, as long as places mean the same ranks.
  if (same_size) {
    memory.holder = places_[place].holder;
    memory.holder_incarnation = places_[place].holder_incarnation;
    memory.copied = places_[place].copied;
  }
  memory.arena_first_rank = static_cast<uint32_t>(place) * view.local();
  if (const auto was = view.group.PlaceOf(id.value())) {
    memory.arena_first_rank = places_[*was].arena_first_rank;
    if (alike || (same_size && *was == place)) memory.sealed = places_[*was].sealed;
    return memory;
  }
  const auto left = left_.find(id);
  // A node that the job left and now gets back still has its snapshots, unless its agent has been
  // started again in between.
  if (left != left_.end() && left->second.incarnation == view.nodes.at(id).incarnation) {
    const bool same = left->second.place == place && left->second.nodes == target.size();
    memory.arena_first_rank = left->second.arena_first_rank;
    if (alike || same) memory.sealed = left->second.sealed;
  }
  return memory;
}

void SnapshotTracker::ChangeGang(const GangView& view, const std::vector<NodeId>& target) {
  std::vector<PlaceMemory> places;
  places.reserve(target.size());
  for (size_t i = 0; i < target.size(); ++i) places.push_back(MemoryAt(view, target, i));
  for (const NodeId& id : target) left_.erase(id);
  const std::set<NodeId> stay(target.begin(), target.end());
  for (size_t i = 0; i < view.group.size(); ++i) {
    const Node& node = view.nodes.at(view.group.member(i).node);
    if (node.lost || stay.contains(node.id)) continue;
    left_[node.id] = {node.incarnation, places_[i].sealed, places_[i].arena_first_rank, i,
                      view.group.size()};
  }
  // Assigned last, because MemoryAt reads the earlier places for each place of the target.
  places_ = std::move(places);
}

void SnapshotTracker::LeaveAll(const GangView& view) { ChangeGang(view, {}); }

uint32_t SnapshotTracker::NodesOfAttempt(uint64_t attempt, const proto::Job& spec) const {
  const auto found = nodes_of_attempt_.find(attempt);
  return found == nodes_of_attempt_.end() ? spec.nodes() : found->second;
}

bool SnapshotTracker::IsOfHistory(uint64_t attempt, uint64_t step, uint64_t now) const {
  return attempt == now || (attempt < now && step <= restore_.step());
}

// An attempt from before the remembered ones is unknown, and its state is not used. A state at or
// below the step from which its attempt began cannot have been sealed by it.
bool SnapshotTracker::Continues(uint64_t attempt, uint64_t step, uint64_t now) const {
  if (attempt > now || !restored_.contains(attempt)) return false;
  if (step <= restored_.at(attempt)) return false;
  return std::all_of(restored_.upper_bound(attempt), restored_.end(),
                     [step](const auto& later) { return later.second >= step; });
}

bool SnapshotTracker::Seal(size_t place, uint64_t step) {
  places_[place].sealed.Add(step);
  // The caller has checked that the place does not hold the step yet, so each place is counted
  // once.
  return ++seals_[step] >= places_.size();
}

void SnapshotTracker::SealAll(uint64_t step) {
  for (PlaceMemory& place : places_) place.sealed.Add(step);
}

void SnapshotTracker::Complete(uint64_t step, uint64_t attempt) {
  // Older steps that some node has not sealed are never completed: a restore would prefer this one
  // anyway.
  seals_.erase(seals_.begin(), seals_.upper_bound(step));
  spreads_.erase(spreads_.begin(), spreads_.upper_bound(step));
  memory_step_ = step;
  complete_[step] = attempt;
  if (complete_.size() > kMostComplete) complete_.erase(complete_.begin());
  ++snapshots_;
}

// How the last node to seal took it.
void SnapshotTracker::NoteWay(const proto::SnapshotSealed& sealed) {
  const auto way = static_cast<size_t>(sealed.way());
  ++ways_[way < ways_.size() ? way : 0];
  const Seconds waited(ToSeconds(Duration(sealed.waited_ns())));
  slot_waits_ = slot_waits_ + waited;
  longest_slot_wait_ = std::max(longest_slot_wait_, waited);
}

void SnapshotTracker::NoteCopy(size_t place, const Node& holder, uint64_t step) {
  PlaceMemory& memory = places_[place];
  // One holder for each place is tracked: the one that received the newest copy.
  if (memory.holder != holder.id || memory.holder_incarnation != holder.incarnation) {
    memory.copied = {};
    memory.holder = holder.id;
    memory.holder_incarnation = holder.incarnation;
  }
  memory.copied.Add(step);
}

uint64_t SnapshotTracker::Adopt(const GangView& view, size_t place, const Node& node,
                                uint64_t life_before, uint64_t attempt,
                                const std::vector<const proto::AgentJoined::HeldSnapshot*>& held) {
  AdoptPieces(view, node, life_before, held);
  const bool alike = NodesAreAlike(view.spec);
  Ranks own, copies;
  for (const auto* each : held) {
    if (!Continues(each->attempt(), each->step(), attempt)) continue;
    // What was sealed under other ranks serves where nodes are alike, and only there.
    const bool moved = each->attempt() < placed_attempt_;
    if (moved && (each->copy() || !alike)) continue;
    (each->copy() ? copies : own)[each->step()].insert(each->rank());
  }
  PlaceMemory& memory = places_[place];
  for (const auto& [step, ranks] : own) {
    if (HasAll(ranks, memory.arena_first_rank, view.local())) memory.sealed.Add(step);
  }
  for (size_t i = 0; i < places_.size(); ++i) {
    PlaceMemory& other = places_[i];
    if (other.holder != node.id || other.holder_incarnation != life_before) continue;
    // The copies are verified anew by the new agent, so what the earlier one had reported is
    // replaced, not extended.
    other.holder_incarnation = node.incarnation;
    other.copied = {};
    for (const auto& [step, ranks] : copies) {
      if (HasAll(ranks, static_cast<uint32_t>(i) * view.local(), view.local())) {
        other.copied.Add(step);
      }
    }
  }
  return memory.sealed.newest();
}

void SnapshotTracker::LoseLeft(const NodeId& node) {
  const auto left = left_.find(node);
  // The entry stays, so that a node that returns still receives the order to release the job's
  // memory.
  if (left != left_.end()) left->second.sealed = {};
}

void SnapshotTracker::ForgetAbove(uint64_t step) {
  const auto forget = [step](NewestSteps& steps) { steps.RemoveAbove(step); };
  for (PlaceMemory& place : places_) {
    forget(place.sealed);
    forget(place.copied);
  }
  for (auto& [node, memory] : left_) forget(memory.sealed);
  seals_.erase(seals_.upper_bound(step), seals_.end());
  complete_.erase(complete_.upper_bound(step), complete_.end());
  spreads_.erase(spreads_.upper_bound(step), spreads_.end());
  while (!committed_.empty() && committed_.rbegin()->first > step) {
    DropCommitted(committed_.rbegin()->first);
  }
  if (memory_step_ > step) memory_step_ = complete_.empty() ? 0 : complete_.rbegin()->first;
}

void SnapshotTracker::ForgetOwn(const GangView& view, size_t place, uint64_t step) {
  places_[place].sealed.Remove(step);
  DropPieces(step, view.group.member(place).node, /*copy=*/false);
}

// A member's own memory, as far as other places are served from it, or the copy of the place.
void SnapshotTracker::ForgetCopy(const GangView& view, size_t place, uint64_t step) {
  const Node* source = CopyOf(view, place, step);
  if (source != nullptr && NodesAreAlike(view.spec)) {
    const auto other = view.group.PlaceOf(source->id.value());
    if (other.has_value() && Holds(*other, step)) return places_[*other].sealed.Remove(step);
  }
  places_[place].copied.Remove(step);
  if (source != nullptr) DropPieces(step, source->id, /*copy=*/true);
}

void SnapshotTracker::ForgetLeft(const NodeId& node) {
  left_.erase(node);
  for (auto& [step, spread] : spreads_) {
    for (auto& place : spread.places) {
      std::erase_if(place, [&node](const Spread::Holding& each) { return each.node == node; });
    }
  }
}

bool SnapshotTracker::SomeLeftAlive(const NodeTable& nodes) const {
  return std::any_of(left_.begin(), left_.end(), [&](const auto& entry) {
    const Node* node = nodes.Find(entry.first);
    return node != nullptr && !node->lost && node->incarnation == entry.second.incarnation;
  });
}

// `committed_` follows the retention of the job's folder (`keep`), so that no restore names a
// checkpoint that the agent has removed. An older step may be committed after a newer one; then the
// newest does not change.
bool SnapshotTracker::Commit(uint64_t step, uint64_t attempt, size_t keep) {
  committed_[step] = attempt;
  while (committed_.size() > keep) committed_.erase(committed_.begin());
  if (step <= committed_step_) return false;
  committed_step_ = step;
  committed_attempt_ = attempt;
  return true;
}

void SnapshotTracker::DropCommitted(uint64_t step) {
  committed_.erase(step);
  committed_step_ = committed_.empty() ? 0 : committed_.rbegin()->first;
  committed_attempt_ = committed_.empty() ? 0 : committed_.rbegin()->second;
}

void SnapshotTracker::NoteFetched() {
  restore_.set_tier(proto::Restore::TIER_DISK);
  committed_[restore_.step()] = restore_.saved_attempt();
  committed_step_ = committed_.rbegin()->first;
  committed_attempt_ = committed_.rbegin()->second;
}

std::optional<uint64_t> SnapshotTracker::AttemptOfComplete(uint64_t step) const {
  const auto found = complete_.find(step);
  if (found == complete_.end() || found->second < placed_attempt_) return std::nullopt;
  return found->second;
}

}  // namespace longhaul::runtime::controller
