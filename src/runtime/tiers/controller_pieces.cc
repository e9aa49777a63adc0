// A step out of memories that hold it in another layout: after a change of size, or when a place's
// own memory and its copy are gone and a replica's is not.
//
// Which boxes of which tensors a snapshot holds is known to the agents alone. What the controller
// knows is enough: who sealed together holds the whole state together, and of the built-in trainer
// also whose states are alike. So a step can be had when every place of the gang that sealed it, or
// a replica of each of its ranks, is in a living memory.
#include <algorithm>
#include <set>
#include <utility>

#include "runtime/cluster/elastic.h"
#include "runtime/internal/controller_state.h"

namespace longhaul::runtime {
namespace {

using internal::Spread;

constexpr size_t kKeptSpreads = 2;
// Of what one node is told: a state that more ranks hold apart comes from disk.
constexpr size_t kMostPieces = 4096;
// Holders of one state that a node is told of, its own among them.
constexpr size_t kMostReplicas = 4;

// The states of the built-in trainer: what a rank holds is a function of its stage and its part.
class States {
 public:
  States(const wire::Job& job, size_t nodes)
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

// Where the places of the gang that sealed `step` have it: as remembered, else as the present gang
// has it. No places when nobody knows.
Spread Controller::State::SpreadOf(const Job& job, uint64_t step) const {
  const auto remembered = job.spreads.find(step);
  if (remembered != job.spreads.end()) return remembered->second;
  const auto complete = job.complete.find(step);
  Spread spread;
  if (peers_ == 0 || complete == job.complete.end() || NodesAreAlike(job.spec)) return spread;
  if (complete->second < job.placed_epoch) return spread;  // of other ranks
  spread.epoch = complete->second;
  const uint32_t local = job.spec.processes_per_node();
  for (size_t i = 0; i < job.gang.size(); ++i) {
    const Member& member = job.gang[i];
    auto& place = spread.places.emplace_back();
    const auto has = [step](const std::array<uint64_t, 2>& steps) {
      return steps[0] == step || steps[1] == step;
    };
    const Node* node = FindNode(member.node);
    if (has(member.sealed) && node != nullptr) {
      place.push_back({member.node, node->incarnation, member.arena_first_rank, false});
    }
    if (has(member.copied)) {
      place.push_back(
          {member.holder, member.holder_incarnation, static_cast<uint32_t>(i) * local, true});
    }
  }
  return spread;
}

void Controller::State::RememberSpreads(Job& job) {
  if (job.gang.empty() || NodesAreAlike(job.spec)) return;
  for (auto step = job.complete.rbegin(); step != job.complete.rend(); ++step) {
    if (job.spreads.size() >= kKeptSpreads) break;
    Spread spread = SpreadOf(job, step->first);
    if (!spread.places.empty()) job.spreads.emplace(step->first, std::move(spread));
  }
}

// Whether the node still holds it and can be asked. One that has left the job is told to give it
// free once nobody wants it (FreeLeft, DropPiecesOn).
bool Controller::State::StillHolds(const Job& job, const Spread::Holding& holding) const {
  const Node* node = FindNode(holding.node);
  if (node == nullptr || !node->connected || node->lost || node->facts.peer_port() == 0)
    return false;
  if (node->incarnation != holding.incarnation) return false;
  return job.places.contains(holding.node.value()) || job.left.contains(holding.node);
}

bool Controller::State::IsWhole(const Job& job, const Spread& spread) const {
  if (spread.places.empty()) return false;
  const States states(job.spec, spread.places.size());
  const uint64_t local = job.spec.processes_per_node();
  if (!states.known() && spread.places.size() * local > kMostPieces) return false;
  std::set<uint64_t> all, there;
  for (size_t place = 0; place < spread.places.size(); ++place) {
    const auto& holdings = spread.places[place];
    const bool has =
        std::any_of(holdings.begin(), holdings.end(),
                    [&](const Spread::Holding& each) { return StillHolds(job, each); });
    for (uint64_t rank = place * local; rank < (place + 1) * local; ++rank) {
      all.insert(states.Of(rank));
      if (has) there.insert(states.Of(rank));
    }
  }
  return all == there;
}

// What the member's ranks may want of the step: of the built-in trainer the states of their stages
// and parts, of others all there is.
void Controller::State::AddPieces(const Job& job, size_t member, wire::Restore& restore) const {
  const Spread spread = SpreadOf(job, restore.step());
  const States then(job.spec, spread.places.size());
  const States now(job.spec, job.gang.size());
  const uint32_t local = job.spec.processes_per_node();
  std::set<uint64_t> wanted;
  for (uint64_t rank = member * local; rank < (member + 1) * local; ++rank) {
    wanted.insert(now.Of(rank));
  }
  std::map<uint64_t, size_t> told;  // holders by state
  const auto add = [&](bool own) {
    for (size_t place = 0; place < spread.places.size(); ++place) {
      for (const Spread::Holding& holding : spread.places[place]) {
        if ((holding.node == job.gang[member].node) != own || !StillHolds(job, holding)) continue;
        const Node& node = nodes_.at(holding.node);
        for (uint32_t i = 0; i < local; ++i) {
          const uint64_t rank = place * local + i;
          const uint64_t state = then.Of(rank);
          if (then.known() && !wanted.contains(state)) continue;
          if (then.known() && ++told[state] > kMostReplicas) continue;
          wire::Restore::Piece& piece = *restore.add_pieces();
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

void Controller::State::DropPiecesOn(Job& job, const NodeId& node) {
  for (auto& [step, spread] : job.spreads) {
    for (auto& place : spread.places) {
      std::erase_if(place, [&node](const Spread::Holding& each) { return each.node == node; });
    }
  }
}

// What the node holds of the step, its own or its copies, was no good.
void Controller::State::DropPieces(Job& job, uint64_t step, const NodeId& node, bool copy) {
  const auto spread = job.spreads.find(step);
  if (spread == job.spreads.end()) return;
  for (auto& place : spread->second.places) {
    std::erase_if(
        place, [&](const Spread::Holding& each) { return each.node == node && each.copy == copy; });
  }
}

// Those that were no good are never offered again; where none is named, none of the step is.
void Controller::State::ForgetPieces(Job& job, const wire::SnapshotFailed& failed) {
  const uint64_t step = failed.step();
  Spread& spread = job.spreads.emplace(step, SpreadOf(job, step)).first->second;
  const uint32_t local = job.spec.processes_per_node();
  if (failed.bad().empty() && failed.while_restoring()) {
    for (auto& place : spread.places) place.clear();
  }
  for (const wire::Restore::Piece& bad : failed.bad()) {
    const auto is_bad = [&](const Spread::Holding& holding) {
      return holding.node.value() == bad.node() && holding.copy == bad.copy() &&
             bad.name() >= holding.first && bad.name() - holding.first < local;
    };
    for (auto& place : spread.places) std::erase_if(place, is_bad);
    // Nor as a node's own memory, or as the copy of one.
    for (Member& member : job.gang) {
      const bool own = !bad.copy() && member.node.value() == bad.node();
      const bool copy = bad.copy() && member.holder.value() == bad.node();
      for (uint64_t& each : member.sealed) each = own && each == step ? 0 : each;
      for (uint64_t& each : member.copied) each = copy && each == step ? 0 : each;
      if (member.sealed[0] == 0) std::swap(member.sealed[0], member.sealed[1]);
      if (member.copied[0] == 0) std::swap(member.copied[0], member.copied[1]);
    }
  }
}

// A new agent of the node has the memory of the one before it: what it has verified still counts.
void Controller::State::AdoptPieces(Job& job, const Node& node, uint64_t life_before) {
  const uint32_t local = job.spec.processes_per_node();
  for (auto& [step, spread] : job.spreads) {
    for (auto& place : spread.places) {
      for (Spread::Holding& holding : place) {
        if (holding.node != node.id || holding.incarnation != life_before) continue;
        uint32_t there = 0;
        for (const auto& held : node.facts.held()) {
          there += held.job_id() == job.spec.id() && held.copy() == holding.copy &&
                   held.step() == step && held.epoch() == spread.epoch &&
                   held.rank() >= holding.first && held.rank() - holding.first < local;
        }
        if (there == local) holding.incarnation = node.incarnation;
      }
    }
  }
}

}  // namespace longhaul::runtime
