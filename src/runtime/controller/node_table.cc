#include "runtime/controller/node_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace longhaul::runtime::controller {

namespace {

// A failure of a worker is held against later ones on its node for this long.
constexpr Duration kWorkerFaultMemory = std::chrono::hours(24);
constexpr size_t kMostWorkerFaults = 16;

}  // namespace

// A record with incarnation 0 exists only between BeginJoin and BeginLife of a new name; for all
// others the node has not joined yet.
Node* NodeTable::Lookup(const NodeId& id) const {
  const auto found = index_.find(id.value());
  return found == index_.end() || found->second->incarnation == 0 ? nullptr : found->second;
}

bool NodeTable::IsAlive(const NodeId& id) const {
  const Node* node = Find(id);
  return node != nullptr && !node->lost;
}

// The sum is computed in 64 bits, because the numbers come from messages and the sum must not wrap.
bool NodeTable::CanTake(const NodeId& id, const SlotClaim& claim, int64_t device_memory_mib) const {
  const Node* node = Find(id);
  return node != nullptr && node->reachable() &&
         uint64_t{node->used_milli} + claim.slots_milli <= uint64_t{node->facts.slots()} * 1'000 &&
         DevicesFree(id, claim, {}, device_memory_mib);
}

bool NodeTable::DevicesFree(const NodeId& id, const SlotClaim& claim, const SlotClaim& own,
                            int64_t device_memory_mib) const {
  const Node& node = nodes_.at(id);
  for (size_t i = 0; i < node.devices.size(); ++i) {
    if ((claim.devices >> i & 1) == 0) continue;
    const bool owned = (own.devices >> i & 1) != 0;
    const uint32_t share = node.devices[i].share_milli - (owned ? own.share_milli : 0u);
    const int64_t memory = node.devices[i].memory_mib - (owned ? own.memory_mib : 0);
    if (share + claim.share_milli > scheduler::kWholeGpu) return false;
    if (device_memory_mib > 0 && memory + claim.memory_mib > device_memory_mib) return false;
  }
  return true;
}

// An agent sends its events again after a reconnect, until they are acknowledged. The sequence
// number makes each of them count once; gaps are allowed.
bool NodeTable::TakeSequence(const NodeId& id, uint64_t incarnation, uint64_t sequence) {
  Node* node = Lookup(id);
  if (node == nullptr || node->incarnation != incarnation) return false;
  if (sequence <= node->last_sequence) return false;
  node->last_sequence = sequence;
  return true;
}

uint64_t NodeTable::AcknowledgedSequence(const NodeId& id, uint64_t incarnation) const {
  const Node* node = Find(id);
  return node == nullptr || node->incarnation != incarnation ? 0 : node->last_sequence;
}

NodeTable::Joining NodeTable::BeginJoin(const NodeId& id, uint64_t incarnation, uint64_t sequence) {
  Node& node = nodes_[id];
  index_[id.value()] = &node;
  if (incarnation < node.incarnation || incarnation == 0) return Joining::kStale;
  // The order of the conditions matters. A lower incarnation is an agent that a newer one has
  // replaced; of the same life, only a join with a higher sequence number is new.
  const bool same = incarnation == node.incarnation;
  if (same && sequence <= node.last_sequence) return Joining::kStale;
  // The ranks of a node that was given up have been replaced. Its workers end when the agent
  // receives the end of their attempts.
  if (same) node.lost = false;
  node.id = id;
  return same ? Joining::kSameLife : Joining::kNewLife;
}

uint64_t NodeTable::BeginLife(const NodeId& id, uint64_t incarnation) {
  return std::exchange(nodes_.at(id).incarnation, incarnation);
}

Node& NodeTable::Change(const NodeId& id) {
  ++changes_;
  return nodes_.at(id);
}

// `cut` distinguishes a broken connection from a start of the controller, which disconnects all
// agents: only the former is evidence of a degraded node or link.
bool NodeTable::Join(const NodeId& id, uint64_t sequence, const proto::AgentJoined& facts) {
  Node& node = Change(id);
  const bool was_cut = std::exchange(node.cut, false) && !node.lost;
  node.last_sequence = sequence;
  node.connected = true;
  node.lost = false;
  // The port may differ from that of the earlier life, so the count is taken back with the old
  // facts before the new ones replace them.
  peers_ -= node.facts.peer_port() != 0 ? 1 : 0;
  node.facts = facts;
  peers_ += node.facts.peer_port() != 0 ? 1 : 0;
  return was_cut;
}

void NodeTable::Cut(const NodeId& id) {
  Node& node = Change(id);
  node.connected = false;
  node.cut = true;
}

void NodeTable::Disconnect(const NodeId& id) {
  Node& node = Change(id);
  node.connected = false;
  node.cut = false;
}

void NodeTable::Lose(const NodeId& id) {
  Node& node = Change(id);
  node.connected = false;
  node.lost = true;
  node.cut = node.checked = false;
  ++node.losses;
}

void NodeTable::MarkChecked(const NodeId& id) { Change(id).checked = true; }

void NodeTable::Cordon(const NodeId& id, bool cordoned, bool drain) {
  Node& node = Change(id);
  node.cordoned = cordoned;
  node.draining = cordoned && drain;
  if (cordoned) node.enlisted = false;
}

void NodeTable::Enlist(const NodeId& id) {
  Node& node = Change(id);
  node.cordoned = node.draining = false;
  node.enlisted = true;
}

void NodeTable::Avoid(const NodeId& id, bool avoided) { Change(id).avoided = avoided; }

void NodeTable::TakeSlots(const NodeId& id, const SlotClaim& claim) {
  Node& node = Change(id);
  node.used_milli += claim.slots_milli;
  used_milli_ += claim.slots_milli;
  for (size_t i = 0; i < node.devices.size(); ++i) {
    if ((claim.devices >> i & 1) == 0) continue;
    node.devices[i].share_milli += claim.share_milli;
    node.devices[i].memory_mib += claim.memory_mib;
  }
}

void NodeTable::FreeSlots(const NodeId& id, const SlotClaim& claim) {
  Node& node = Change(id);
  CHECK(node.used_milli >= claim.slots_milli);
  node.used_milli -= claim.slots_milli;
  used_milli_ -= claim.slots_milli;
  for (size_t i = 0; i < node.devices.size(); ++i) {
    if ((claim.devices >> i & 1) == 0) continue;
    CHECK(node.devices[i].share_milli >= claim.share_milli);
    node.devices[i].share_milli -= claim.share_milli;
    node.devices[i].memory_mib -= claim.memory_mib;
  }
}

// One faulty program makes one job fail again and again on the same node, so repeats of a narrow
// job prove nothing about the node. A second job, or a gang whose other nodes did not fail, does.
// The record is cleared when a fault counts, so that one earlier fault is not used as evidence
// twice.
bool NodeTable::NoteWorkerFault(const NodeId& id, const std::string& job, bool wide, Instant now) {
  auto& faults = nodes_.at(id).worker_faults;
  std::erase_if(faults, [&](const auto& past) { return past.at + kWorkerFaultMemory < now; });
  const bool again = std::any_of(faults.begin(), faults.end(),
                                 [&](const auto& past) { return past.job != job || past.wide; });
  if (again) {
    faults.clear();
    return true;
  }
  if (faults.size() == kMostWorkerFaults) faults.erase(faults.begin());
  faults.push_back({now, job, wide});
  return false;
}

}  // namespace longhaul::runtime::controller
