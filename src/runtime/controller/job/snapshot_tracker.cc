#include "runtime/controller/job/snapshot_tracker.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/scheduling/elastic.h"

namespace longhaul::runtime::controller {

namespace {

// Complete steps that are remembered; memories hold fewer.
constexpr size_t kMostComplete = 8;
constexpr size_t kMostHolders = 3;          // of copies for a place
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
    for (CopyHolder& holder : place.copies) holder.steps.RemoveAbove(from);
  }
  // A node that gets its place back would otherwise count as a holder of the new step of this
  // number.
  for (auto& [node, memory] : left_) memory.sealed.RemoveAbove(from);
  // Seals of the earlier attempt may be incomplete. Counting them together with those of the new
  // attempt would declare a step complete that no attempt has in full. A complete step that was
  // sealed again by some places is of two attempts, and cannot be written under either.
  for (const auto& [step, sealed_by] : seals_) complete_.erase(step);
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
  if (same_size) memory.copies = places_[place].copies;
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
    if (stay.contains(node.id)) continue;
    // The memory of a lost node is not counted on, but if its agent returns it has to release it.
    if (node.lost) DropHoldings(node.id);
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

// An attempt from before the remembered ones is unknown, and its state is not used. An attempt may
// have sealed the step from which it began once more, but not a step below.
bool SnapshotTracker::Continues(uint64_t attempt, uint64_t step, uint64_t now) const {
  if (attempt > now || !restored_.contains(attempt)) return false;
  if (step < restored_.at(attempt)) return false;
  return std::all_of(restored_.upper_bound(attempt), restored_.end(),
                     [step](const auto& later) { return later.second >= step; });
}

void SnapshotTracker::NoteInMemory(const GangView& view, size_t place, uint64_t step) {
  places_[place].sealed.Add(step);
  DropReplaced(view.group.member(place).node, place, step);
}

bool SnapshotTracker::Seal(const GangView& view, size_t place, uint64_t step) {
  // The new snapshot takes the place of one of the same step, also as a piece for others.
  if (Holds(place, step)) ForgetOwn(view, place, step);
  NoteInMemory(view, place, step);
  std::set<size_t>& sealed_by = seals_[step];
  // A repeated report must not be counted twice towards the completeness of the step.
  return sealed_by.insert(place).second && sealed_by.size() >= places_.size();
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

std::vector<const CopyHolder*> PlaceMemory::HoldersOf(uint64_t step) const {
  std::vector<const CopyHolder*> holders;
  for (const CopyHolder& holder : copies) {
    if (holder.steps.contains(step)) holders.push_back(&holder);
  }
  return holders;
}

// Several nodes can have copies for one place, because its peer changes with the gang. The one
// whose report is the oldest is forgotten first.
CopyHolder& SnapshotTracker::HolderOf(PlaceMemory& memory, const Node& node) {
  CopyHolder now{node.id, node.incarnation, {}, {}};
  for (CopyHolder& holder : memory.copies) {
    if (holder.node == node.id && holder.incarnation == node.incarnation) now = holder;
  }
  std::erase_if(memory.copies, [&node](const CopyHolder& each) { return each.node == node.id; });
  if (memory.copies.size() == kMostHolders) memory.copies.erase(memory.copies.begin());
  return memory.copies.emplace_back(std::move(now));
}

void SnapshotTracker::NoteCopy(size_t place, const Node& node, uint64_t attempt, uint64_t step,
                               uint64_t now) {
  CopyHolder& holder = HolderOf(places_[place], node);
  const std::array<uint64_t, 2> before = holder.steps.all();
  holder.steps.Add(step);
  holder.bad.erase(step);
  for (const uint64_t earlier : before) {
    const auto spread = spreads_.find(earlier);
    if (spread == spreads_.end()) continue;
    // A copy of the same step replaces the one that another attempt had sealed.
    const bool sealed_again = earlier == step && attempt != spread->second.attempt;
    if (holder.steps.contains(earlier) && !sealed_again) continue;
    if (place >= spread->second.places.size()) continue;
    std::erase_if(spread->second.places[place], [&node](const Spread::Holding& each) {
      return each.copy && each.node == node.id;
    });
  }
  if (!Continues(attempt, step, now) || attempt < placed_attempt_) holder.steps.Remove(step);
}

void SnapshotTracker::TakeCopies(const GangView& view, const Node& node, uint64_t now,
                                 const std::vector<const proto::AgentJoined::HeldSnapshot*>& held) {
  Ranks copies;
  for (const auto* each : held) {
    const bool of_state = Continues(each->attempt(), each->step(), now);
    if (!each->copy() || !of_state || each->attempt() < placed_attempt_) continue;
    copies[each->step()].insert(each->rank());
  }
  for (size_t i = 0; i < places_.size(); ++i) {
    const auto known = std::ranges::any_of(
        places_[i].copies, [&node](const CopyHolder& each) { return each.node == node.id; });
    if (!known && copies.empty()) continue;
    CopyHolder& holder = HolderOf(places_[i], node);
    holder.steps = {};
    for (const auto& [step, ranks] : copies) {
      const bool whole = HasAll(ranks, static_cast<uint32_t>(i) * view.local(), view.local());
      if (whole && !holder.bad.contains(step)) holder.steps.Add(step);
    }
  }
  // What this agent does not list any more has been replaced in its memory.
  for (auto& [step, spread] : spreads_) {
    const auto is_gone = [&, at = step, sealed_by = spread.attempt](const Spread::Holding& each) {
      if (!each.copy || each.node != node.id || each.incarnation != node.incarnation) return false;
      const auto listed = std::ranges::count_if(held, [&](const auto* one) {
        return one->copy() && one->step() == at && one->attempt() == sealed_by &&
               one->rank() >= each.first && one->rank() - each.first < view.local();
      });
      return listed != view.local();
    };
    for (auto& place : spread.places) std::erase_if(place, is_gone);
  }
}

uint64_t SnapshotTracker::Adopt(const GangView& view, size_t place, const Node& node,
                                uint64_t life_before, uint64_t attempt,
                                const std::vector<const proto::AgentJoined::HeldSnapshot*>& held) {
  AdoptPieces(view, node, life_before, held);
  const bool alike = NodesAreAlike(view.spec);
  Ranks own;
  for (const auto* each : held) {
    if (each->copy() || !Continues(each->attempt(), each->step(), attempt)) continue;
    // What was sealed under other ranks serves where nodes are alike, and only there.
    if (each->attempt() < placed_attempt_ && !alike) continue;
    own[each->step()].insert(each->rank());
  }
  PlaceMemory& memory = places_[place];
  for (const auto& [step, ranks] : own) {
    if (HasAll(ranks, memory.arena_first_rank, view.local())) memory.sealed.Add(step);
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
    for (CopyHolder& holder : place.copies) forget(holder.steps);
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
  if (source == nullptr) return;
  CopyHolder& holder = HolderOf(places_[place], *source);
  holder.steps.Remove(step);
  holder.bad.insert(step);
  if (holder.bad.size() > kMostComplete) holder.bad.erase(holder.bad.begin());
  DropPieces(step, source->id, /*copy=*/true);
}

void SnapshotTracker::ForgetLeft(const NodeId& node) {
  left_.erase(node);
  for (PlaceMemory& place : places_) {
    std::erase_if(place.copies, [&node](const CopyHolder& each) { return each.node == node; });
  }
  DropHoldings(node);
}

void SnapshotTracker::DropHoldings(const NodeId& node) {
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
  if (seals_.contains(step)) return std::nullopt;
  return found->second;
}

}  // namespace longhaul::runtime::controller
