// What a job can be restored from: memories, pieces of memories in another layout, disk.
#include <algorithm>
#include <set>
#include <utility>

#include "runtime/controller/job/snapshot_tracker.h"
#include "runtime/scheduling/elastic.h"

namespace longhaul::runtime::controller {
namespace {

constexpr size_t kKeptSpreads = 2;
// The most pieces in one restore command. A state in more pieces is read from disk.
constexpr size_t kMostPieces = 4096;
// The most holders of one state in a restore command, the node itself included.
constexpr size_t kMostReplicas = 4;
// A complete step is in every memory or on disk, so the steps of a few places are enough.
constexpr size_t kMostSteps = 64;

// The states of the built-in trainer: what a rank holds is a function of its stage and its part.
// For example, 2 tensor-parallel parts and 2 pipeline stages on 8 ranks: stage 0 is ranks 0 to 3,
// stage 1 is ranks 4 to 7, and in a stage the part is the rank modulo 2. Ranks 0 and 2 then have
// the same state, as replicas. The state's number depends only on stage and part, so it means the
// same in a gang of any size.
class States {
 public:
  States(const proto::Job& job, size_t nodes)
      : tensor_(std::max(1u, job.tensor())), known_(job.workload().built_in() && job.tensor() > 0) {
    const uint64_t world = nodes * job.processes_per_node();
    const uint64_t replica = uint64_t{tensor_} * std::max(1u, job.pipeline());
    known_ = known_ && world % replica == 0;
    in_stage_ = known_ ? world / std::max(1u, job.pipeline()) : 1;
  }
  // A number that ranks of the same state share. Where nothing is known, each has its own.
  uint64_t Of(uint64_t rank) const {
    return known_ ? rank / in_stage_ * tensor_ + rank % tensor_ : rank;
  }
  bool known() const { return known_; }

 private:
  uint64_t tensor_;
  bool known_;
  uint64_t in_stage_ = 1;  // ranks
};

}  // namespace

// The newest step wins over a faster tier: a step that only the disk has is preferred to an older
// one in memory, since each step lost costs its computation again. Within one step the nearest tier
// is used. `saved_attempt` names the checkpoint's folder whenever there is one, also where memory
// is used.
proto::Restore SnapshotTracker::ChooseRestore(const GangView& view,
                                              const std::map<uint64_t, uint64_t>& copies) const {
  std::vector<uint64_t> steps;
  for (const PlaceMemory& place : places_) {
    steps.insert(steps.end(), place.sealed.all().begin(), place.sealed.all().end());
    for (const CopyHolder& holder : place.copies) {
      steps.insert(steps.end(), holder.steps.all().begin(), holder.steps.all().end());
    }
    if (steps.size() > kMostSteps) break;
  }
  for (const auto& [step, spread] : spreads_) steps.push_back(step);
  for (const auto& [step, attempt] : committed_) steps.push_back(step);
  for (const auto& [step, attempt] : copies) steps.push_back(step);
  std::sort(steps.rbegin(), steps.rend());
  proto::Restore restore;
  for (const uint64_t step : steps) {
    if (step == 0) break;
    const bool on_disk = committed_.contains(step);
    const bool saved = on_disk || copies.contains(step);
    bool in_memory = true;  // of their own, all of them
    bool in_memories = true;
    // The loop ends early only where its result no longer matters: a step that is neither in all
    // memories nor saved is not restored from.
    for (size_t i = 0; i < places_.size() && (in_memories || saved); ++i) {
      if (Holds(i, step)) continue;
      in_memory = false;
      in_memories = in_memories && CopyOf(view, i, step) != nullptr;
    }
    const Spread spread = in_memories ? Spread() : SpreadOf(view, step);
    const bool in_pieces = !in_memories && IsWhole(view, spread);
    if (!saved && !in_memories && !in_pieces) continue;
    restore.set_step(step);
    restore.set_tier(in_memory     ? proto::Restore::TIER_MEMORY
                     : in_memories ? proto::Restore::TIER_PEER
                     : in_pieces   ? proto::Restore::TIER_PIECES
                     : on_disk     ? proto::Restore::TIER_DISK
                                   : proto::Restore::TIER_SHARED);
    if (saved) restore.set_saved_attempt(on_disk ? committed_.at(step) : copies.at(step));
    if (in_pieces) restore.set_saved_attempt(spread.attempt);
    break;
  }
  return restore;
}

// The tiers differ between places, the step never does: a node that lacks the step in its memory
// reads a copy, while the others use their own.
proto::Restore SnapshotTracker::RestoreFor(const GangView& view, size_t place) const {
  proto::Restore restore = restore_;
  if (restore.step() == 0) return restore;
  if (Holds(place, restore.step())) {
    restore.set_tier(proto::Restore::TIER_MEMORY);
  } else if (restore.tier() == proto::Restore::TIER_PIECES) {
    // Not a whole copy in place of its own arena: that may hold pieces for others.
    AddPieces(view, place, restore);
  } else if (const Node* source = CopyOf(view, place, restore.step())) {
    restore.set_tier(proto::Restore::TIER_PEER);
    restore.set_source_address(source->facts.address());
    restore.set_source_port(source->facts.peer_port());
    const auto of = view.group.PlaceOf(source->id.value());
    const bool own = of.has_value() && Holds(*of, restore.step());
    // With nodes that are alike, the source serves its own arena under the rank for which it was
    // created, which is not a rank of this place.
    if (own && NodesAreAlike(view.spec)) restore.set_source_rank(places_[*of].arena_first_rank);
  } else {
    restore.set_tier(proto::Restore::TIER_DISK);
  }
  return restore;
}

bool SnapshotTracker::NeedsDisk(const GangView& view, const std::vector<NodeId>& target) const {
  // The newest complete state is on disk already, so no node depends on the write.
  if (memory_step_ <= committed_step_) return false;
  const bool alike = NodesAreAlike(view.spec);
  // The nodes that it leaves keep what they hold until a newer state is complete.
  if (!alike && IsWhole(view, SpreadOf(view, memory_step_))) return false;
  if (!alike && target.size() != view.group.size()) return true;
  bool all = true;
  bool gives = false;  // a node that stays has it for the others
  for (size_t i = 0; i < target.size(); ++i) {
    const auto place = view.group.PlaceOf(target[i].value());
    const bool has = place.has_value() && (alike || *place == i) && Holds(*place, memory_step_);
    all = all && has;
    const Node* node = view.nodes.Find(target[i]);
    gives = gives ||
            (has && alike && node != nullptr && node->connected && node->facts.peer_port() != 0);
  }
  return !all && !gives;
}

// An order is only useful if all parts can be written, so one missing writer makes the result
// empty. After the gang has left its nodes, the places are those of the earlier gang, which `left_`
// stores with their number.
std::vector<NodeId> SnapshotTracker::WritersOf(const GangView& view, uint64_t step) const {
  const bool one = view.spec.snapshot().replicated();
  std::vector<NodeId> writers;
  if (!view.group.empty()) {
    for (size_t i = 0; i < view.group.size(); ++i) {
      if (!Holds(i, step)) return {};
      writers.push_back(view.group.member(i).node);
      if (one) break;
    }
  } else {
    std::map<size_t, NodeId> places;  // of the gang that has left
    size_t nodes = 0;
    for (const auto& [id, memory] : left_) {
      if (!memory.sealed.contains(step)) continue;
      places[memory.place] = id;
      nodes = memory.nodes;
    }
    if (one ? !places.contains(0) : (places.empty() || places.size() != nodes)) return {};
    for (const auto& [place, id] : places) {
      writers.push_back(id);
      if (one) break;
    }
  }
  const bool all_there = std::all_of(writers.begin(), writers.end(),
                                     [&](const NodeId& id) { return view.nodes.IsAlive(id); });
  return all_there ? writers : std::vector<NodeId>();
}

const Node* SnapshotTracker::CopyOf(const GangView& view, size_t place, uint64_t step) const {
  if (!view.nodes.has_peers()) return nullptr;
  if (NodesAreAlike(view.spec)) {
    // The own state of any other node serves all.
    for (size_t i = 0; i < places_.size(); ++i) {
      if (i == place || !Holds(i, step)) continue;
      const Node* node = view.nodes.Find(view.group.member(i).node);
      if (node != nullptr && node->serves_peers()) return node;
    }
    if (view.spec.snapshot().replicated()) return nullptr;
  }
  // A copy counts only in the life of the holder's agent that received it. A new agent reports what
  // it has adopted (Adopt).
  for (const CopyHolder* holder : places_[place].HoldersOf(step)) {
    const Node* node = view.nodes.Find(holder->node);
    if (node == nullptr || !node->serves_peers()) continue;
    if (node->incarnation == holder->incarnation) return node;
  }
  return nullptr;
}

// ------------------------------------------------------------------ pieces in another layout

Spread SnapshotTracker::SpreadOf(const GangView& view, uint64_t step) const {
  const auto remembered = spreads_.find(step);
  if (remembered != spreads_.end()) return remembered->second;
  Spread spread;
  const auto attempt = AttemptOfComplete(step);
  if (!view.nodes.has_peers() || !attempt.has_value() || NodesAreAlike(view.spec)) return spread;
  spread.attempt = *attempt;
  for (size_t i = 0; i < places_.size(); ++i) {
    const PlaceMemory& memory = places_[i];
    auto& place = spread.places.emplace_back();
    const Node* node = view.nodes.Find(view.group.member(i).node);
    if (memory.sealed.contains(step) && node != nullptr) {
      place.push_back({node->id, node->incarnation, memory.arena_first_rank, false});
    }
    for (const CopyHolder* holder : memory.HoldersOf(step)) {
      place.push_back(
          {holder->node, holder->incarnation, static_cast<uint32_t>(i) * view.local(), true});
    }
  }
  return spread;
}

// Nodes that are alike need no spreads: any one of them serves all. Newest steps first, and only
// few, because a restore uses the newest one that is whole.
void SnapshotTracker::RememberSpreads(const GangView& view) {
  if (view.group.empty() || NodesAreAlike(view.spec)) return;
  for (auto step = complete_.rbegin(); step != complete_.rend(); ++step) {
    if (spreads_.size() >= kKeptSpreads) break;
    Spread spread = SpreadOf(view, step->first);
    if (!spread.places.empty()) spreads_.emplace(step->first, std::move(spread));
  }
}

// Whether the node still holds it and is reachable. A node that has left the job receives an order
// to release it once it is of no more use (ForgetLeft).
bool SnapshotTracker::StillHolds(const GangView& view, const Spread::Holding& holding) const {
  const Node* node = view.nodes.Find(holding.node);
  if (node == nullptr || !node->serves_peers()) return false;
  if (node->incarnation != holding.incarnation) return false;
  return view.group.contains(holding.node.value()) || left_.contains(holding.node);
}

bool SnapshotTracker::IsWhole(const GangView& view, const Spread& spread) const {
  if (spread.places.empty()) return false;
  // The layout is that of the gang which sealed the step, so its size counts here and not that of
  // the present gang.
  const States states(view.spec, spread.places.size());
  const uint64_t local = view.local();
  if (!states.known() && spread.places.size() * local > kMostPieces) return false;
  // A state may have several holders: replicas on other places, or a copy at a peer. One that is
  // still there is enough.
  std::set<uint64_t> all, there;
  for (size_t place = 0; place < spread.places.size(); ++place) {
    const auto& holdings = spread.places[place];
    const bool has =
        std::any_of(holdings.begin(), holdings.end(),
                    [&](const Spread::Holding& each) { return StillHolds(view, each); });
    for (uint64_t rank = place * local; rank < (place + 1) * local; ++rank) {
      all.insert(states.Of(rank));
      if (has) there.insert(states.Of(rank));
    }
  }
  return all == there;
}

// What the ranks of the place may want of the step: of the built-in trainer the states of their
// stages and parts, of others all there is.
void SnapshotTracker::AddPieces(const GangView& view, size_t place, proto::Restore& restore) const {
  const Spread spread = SpreadOf(view, restore.step());
  const States then(view.spec, spread.places.size());
  const States now(view.spec, view.group.size());
  const uint32_t local = view.local();
  std::set<uint64_t> wanted;
  for (uint64_t rank = place * local; rank < (place + 1) * local; ++rank) {
    wanted.insert(now.Of(rank));
  }
  std::map<uint64_t, size_t> named;  // holders by state
  // Pieces on the node itself are named first: the limit of holders for each state must not exclude
  // the ones that need no network.
  const auto add = [&](bool own) {
    for (size_t of = 0; of < spread.places.size(); ++of) {
      for (const Spread::Holding& holding : spread.places[of]) {
        if ((holding.node == view.group.member(place).node) != own) continue;
        if (!StillHolds(view, holding)) continue;
        const Node& node = view.nodes.at(holding.node);
        for (uint32_t i = 0; i < local; ++i) {
          const uint64_t rank = of * local + i;
          const uint64_t state = then.Of(rank);
          if (then.known() && !wanted.contains(state)) continue;
          if (then.known() && ++named[state] > kMostReplicas) continue;
          proto::Restore::Piece& piece = *restore.add_pieces();
          piece.set_node(holding.node.value());
          piece.set_address(node.facts.address());
          piece.set_port(node.facts.peer_port());
          piece.set_name(holding.first + i);
          piece.set_copy(holding.copy);
          piece.set_rank(static_cast<uint32_t>(rank));
        }
      }
    }
  };
  add(/*own=*/true);
  add(/*own=*/false);
}

// What the node holds of the step, its own or its copies, was no good.
void SnapshotTracker::DropPieces(uint64_t step, const NodeId& node, bool copy) {
  const auto spread = spreads_.find(step);
  if (spread == spreads_.end()) return;
  for (auto& place : spread->second.places) {
    std::erase_if(
        place, [&](const Spread::Holding& each) { return each.node == node && each.copy == copy; });
  }
}

// Pieces for other ranks are in the arenas in which the node seals for its own ranks.
void SnapshotTracker::DropReplaced(const NodeId& node, size_t place, uint64_t step) {
  const auto is_own = [&node](const Spread::Holding& each) {
    return each.node == node && !each.copy;
  };
  const auto holds = [&](const Spread& spread) {
    return std::ranges::any_of(
        spread.places, [&](const auto& holdings) { return std::ranges::any_of(holdings, is_own); });
  };
  uint64_t kept = 0;
  for (const uint64_t each : places_[place].sealed.all()) {
    if (each < step) kept = std::max(kept, each);
  }
  for (const auto& [each, spread] : spreads_) {
    if (each < step && each > kept && holds(spread)) kept = each;
  }
  for (auto& [each, spread] : spreads_) {
    if (each >= kept) continue;
    for (auto& holdings : spread.places) std::erase_if(holdings, is_own);
  }
}

// Where no piece is named, none of the step is offered again.
void SnapshotTracker::ForgetPieces(const GangView& view, const proto::SnapshotFailed& failed) {
  const uint64_t step = failed.step();
  Spread& spread = spreads_.emplace(step, SpreadOf(view, step)).first->second;
  if (failed.bad().empty() && failed.while_restoring()) {
    for (auto& place : spread.places) place.clear();
  }
  for (const proto::Restore::Piece& bad : failed.bad()) {
    const auto is_bad = [&](const Spread::Holding& holding) {
      return holding.node.value() == bad.node() && holding.copy == bad.copy() &&
             bad.name() >= holding.first && bad.name() - holding.first < view.local();
    };
    for (auto& place : spread.places) std::erase_if(place, is_bad);
    // Nor as a node's own memory, or as the copy of one.
    for (size_t i = 0; i < places_.size(); ++i) {
      const bool own = view.group.member(i).node.value() == bad.node();
      if (!bad.copy() && own) places_[i].sealed.Remove(step);
      if (!bad.copy() || bad.name() / view.local() != i) continue;
      for (CopyHolder& holder : places_[i].copies) {
        if (holder.node.value() != bad.node()) continue;
        holder.steps.Remove(step);
        holder.bad.insert(step);
      }
    }
  }
}

// A new agent of the node has the memory of the one before it: what it has verified still counts.
void SnapshotTracker::AdoptPieces(
    const GangView& view, const Node& node, uint64_t life_before,
    const std::vector<const proto::AgentJoined::HeldSnapshot*>& held) {
  for (auto& [step, spread] : spreads_) {
    for (auto& place : spread.places) {
      for (Spread::Holding& holding : place) {
        if (holding.node != node.id || holding.incarnation != life_before) continue;
        uint32_t there = 0;
        for (const auto* each : held) {
          there += each->copy() == holding.copy && each->step() == step &&
                   each->attempt() == spread.attempt && each->rank() >= holding.first &&
                   each->rank() - holding.first < view.local();
        }
        if (there == view.local()) holding.incarnation = node.incarnation;
      }
    }
  }
}

}  // namespace longhaul::runtime::controller
