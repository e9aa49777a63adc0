#include "scheduler/state/state.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "scheduler/state/recount.h"

namespace longhaul::scheduler {

namespace {

bool FitsNode(const NodeState& node, const Shape& shape) {
  if (!FitsHost(node, shape)) return false;
  if (!shape.needs_devices()) return true;
  const int needed = shape.gpus > 0 ? shape.gpus : 1;
  return CountGpus(EligibleGpus(node, shape)) >= needed;
}

uint32_t SlotsOnDevices(const NodeState& node, const Shape& shape, uint32_t limit) {
  if (!shape.needs_devices()) return limit;
  if (shape.gpus > 0) {
    return static_cast<uint32_t>(CountGpus(EligibleGpus(node, shape))) / shape.gpus;
  }
  uint32_t slots = 0;
  for (uint32_t i = 0; i < node.devices; ++i) {
    if (node.free_share[i] < shape.share) continue;
    auto here = static_cast<uint32_t>(node.free_share[i] / shape.share);
    if (shape.gpu_memory_mib > 0) {
      here = std::min(here, static_cast<uint32_t>(std::max(0, node.free_gpu_memory_mib[i]) /
                                                  shape.gpu_memory_mib));
    }
    slots += here;
  }
  return slots;
}

// The least over devices, CPU, memory and counted resources. A negative free amount counts as none.
uint32_t SlotsOf(const NodeState& node, const Shape& shape, uint32_t limit) {
  uint32_t slots = std::min(limit, SlotsOnDevices(node, shape, limit));
  const auto bound = [&slots](int32_t free, int32_t each) {
    if (each > 0) slots = std::min(slots, static_cast<uint32_t>(std::max(0, free) / each));
  };
  bound(node.free_cpu_milli, shape.cpu_milli);
  bound(node.free_memory_mib, shape.memory_mib);
  for (size_t i = 0; i < shape.counted.size(); ++i) {
    bound(node.free_counted[i], shape.counted[i]);
  }
  return slots;
}

// The lowest `count` bits of `mask`.
GpuMask Lowest(GpuMask mask, int count) {
  GpuMask taken = 0;
  for (; count > 0; --count) {
    const auto bit = static_cast<GpuMask>(mask & -mask);
    taken = static_cast<GpuMask>(taken | bit);
    mask = static_cast<GpuMask>(mask ^ bit);
  }
  return taken;
}

// `count` of `eligible`: the smallest island that holds all; else the fullest ones in turn.
GpuMask FewestIslands(const spec::NodeKind& kind, GpuMask eligible, int count) {
  std::array<GpuMask, spec::kMaxDevices> islands{};
  for (size_t i = 0; i < kind.devices.size(); ++i) {
    const auto bit = static_cast<GpuMask>(1u << i);
    GpuMask& island = islands[kind.devices[i].island];
    if ((eligible & bit) != 0) island = static_cast<GpuMask>(island | bit);
  }
  GpuMask taken = 0;
  while (count > 0) {
    const GpuMask* best = nullptr;
    for (const GpuMask& island : islands) {
      const int free = CountGpus(island);
      if (free == 0) continue;
      const int best_free = best == nullptr ? 0 : CountGpus(*best);
      // One that holds all that is left, the less over the better; else the one with most.
      const bool better =
          best == nullptr ||
          (free >= count && best_free >= count ? free < best_free : free > best_free);
      if (better) best = &island;
    }
    CHECK(best != nullptr) << "a task is placed where it doesn't fit";
    const int here = std::min(count, CountGpus(*best));
    const GpuMask part = Lowest(*best, here);
    taken = static_cast<GpuMask>(taken | part);
    islands[static_cast<size_t>(best - islands.data())] = static_cast<GpuMask>(*best ^ part);
    count -= here;
  }
  return taken;
}

}  // namespace

int32_t NodeState::free_milli() const {
  int32_t sum = 0;
  for (const int16_t share : free_share) sum += std::max<int16_t>(share, 0);
  return sum;
}

State::State(const spec::Topology& topology, bool verify)
    : topology_(&topology), verify_(verify), changed_(kKeptChanges) {
  InitGroups();
  newest_task_.assign(size(), kNoTask);
  health_.assign(size(), 1'000);
  uses_.resize(size());
  levels_ = CountDomains(topology, nodes_, Forest::kNetwork);
  groupings_ = CountDomains(topology, nodes_, Forest::kGroupings);
}

// A group is a pair of device model and node class, all that `Allows` depends on; a shape is
// checked once for each group and not for each node. Nodes without devices get a model number of
// their own. Groups are numbered by first appearance, so the numbers depend on the topology alone.
void State::InitGroups() {
  std::map<std::pair<uint16_t, uint16_t>, GroupIndex> known;
  nodes_.reserve(topology_->size());
  for (NodeIndex i = 0; i < topology_->size(); ++i) {
    const spec::NodeKind& kind = topology_->kind_of(i);
    const auto model =
        kind.devices.empty() ? static_cast<uint16_t>(spec::kMaxDeviceModels) : kind.model;
    const auto next = static_cast<GroupIndex>(known.size());
    const auto [it, fresh] = known.try_emplace({model, topology_->node(i).node_class}, next);
    if (fresh) {
      groups_.push_back(next);
      group_models_.push_back(model);
      group_classes_.push_back(topology_->node(i).node_class);
    }
    nodes_.push_back(EmptyNode(*topology_, i, it->second));
  }
}

ShapeId State::Intern(const Shape& shape) {
  const ShapeId id = shapes_.Intern(shape);
  if (static_cast<uint32_t>(id) < allowed_.size()) return id;
  allowed_.push_back(AllowedGroups(shape));
  return id;
}

std::vector<uint64_t> State::AllowedGroups(const Shape& shape) const {
  std::vector<uint64_t> row((groups_.size() + 63) / 64);
  for (const GroupIndex group : groups_) {
    if (Allows(shape, group)) row[group / 64] |= uint64_t{1} << (group % 64);
  }
  return row;
}

bool State::Allows(const Shape& shape, GroupIndex group) const {
  const bool model = !shape.needs_devices() || (group_models_[group] != spec::kMaxDeviceModels &&
                                                (shape.models >> group_models_[group] & 1) != 0);
  return model && shape.classes.contains(group_classes_[group]);
}

bool State::Fits(NodeIndex node, ShapeId shape) const {
  return Allows(shape, nodes_[node].group) && FitsNode(nodes_[node], shapes_[shape]);
}

uint32_t State::Slots(NodeIndex node, ShapeId shape, uint32_t limit) const {
  if (!Allows(shape, nodes_[node].group)) return 0;
  return SlotsOf(nodes_[node], shapes_[shape], limit);
}

uint32_t State::SlotsWhenEmpty(NodeIndex node, ShapeId shape, uint32_t limit) const {
  if (!Allows(shape, nodes_[node].group)) return 0;
  return SlotsOf(EmptyNode(*topology_, node, nodes_[node].group), shapes_[shape], limit);
}

// Nodes of one kind hold the same when empty, so the count is computed once for each kind.
std::vector<uint32_t> State::SlotsWhenEmpty(const Shape& shape, uint32_t limit) const {
  constexpr uint32_t kUnknown = ~uint32_t{0};
  std::vector<uint32_t> of_kind(topology_->kinds().size(), kUnknown);
  std::vector<uint8_t> allowed;
  for (const GroupIndex group : groups_) allowed.push_back(Allows(shape, group) ? 1 : 0);
  std::vector<uint32_t> slots(size());
  for (NodeIndex node = 0; node < size(); ++node) {
    if (allowed[nodes_[node].group] == 0) continue;
    uint32_t& known = of_kind[topology_->node(node).kind];
    if (known == kUnknown) {
      known = SlotsOf(EmptyNode(*topology_, node, nodes_[node].group), shape, limit);
    }
    slots[node] = known;
  }
  return slots;
}

GpuMask State::ChooseGpus(NodeIndex node, ShapeId shape_id) const {
  const Shape& shape = shapes_[shape_id];
  if (!shape.needs_devices()) return 0;
  const NodeState& state = nodes_[node];
  const GpuMask eligible = EligibleGpus(state, shape);
  if (shape.gpus > 0) return FewestIslands(topology_->kind_of(node), eligible, shape.gpus);
  CHECK(eligible != 0) << "a task is placed where it doesn't fit";
  uint32_t best = static_cast<uint32_t>(std::countr_zero(eligible));
  for (uint32_t i = best + 1; i < state.devices; ++i) {
    // A share goes to the fullest device that still has room, which keeps whole GPUs free.
    if ((eligible >> i & 1) != 0 && state.free_share[i] < state.free_share[best]) best = i;
  }
  return static_cast<GpuMask>(1u << best);
}

// Nodes that are not ready add nothing, whatever is free on them, so a change of condition is a
// change of contribution like any other.
State::Contribution State::ContributionOf(const NodeState& node) {
  if (!node.ready()) return {};
  const int free = CountGpus(node.free_gpus);
  return {node.free_milli(), static_cast<uint16_t>(free), node.devices > 0 && free == node.devices,
          true};
}

// Updates the counters of all domains above the node by the difference. The changed node is logged
// even if its contribution is equal: an index may depend on cpu or memory, which the counters leave
// out.
void State::Changed(NodeIndex node, const Contribution& before) {
  changed_[changes_++ % kKeptChanges] = node;
  const Contribution after = ContributionOf(nodes_[node]);
  if (after == before) return;
  const auto update = [&](DomainCounters& counters) {
    counters.free_milli += after.free_milli - before.free_milli;
    counters.free_gpus += static_cast<uint32_t>(after.free_gpus) - before.free_gpus;
    counters.free_hosts += static_cast<uint32_t>(after.free_host) - before.free_host;
    counters.ready_hosts += static_cast<uint32_t>(after.ready) - before.ready;
    if (before.ready) --counters.hosts_with[before.free_gpus];
    if (after.ready) ++counters.hosts_with[after.free_gpus];
  };
  for (size_t i = 0; i < levels_.size(); ++i) {
    update(levels_[i][topology_->levels()[i].domain_of_node[node]]);
  }
  for (size_t i = 0; i < groupings_.size(); ++i) {
    update(groupings_[i][topology_->groupings()[i].level.domain_of_node[node]]);
  }
}

// A whole GPU takes all of its memory, whatever the shape requests. All devices of a node are of
// one model, so the memory of the first one holds for each.
void State::Take(NodeIndex index, const Shape& shape, GpuMask gpus) {
  NodeState& node = nodes_[index];
  const Contribution before = ContributionOf(node);
  node.free_cpu_milli -= shape.cpu_milli;
  node.free_memory_mib -= shape.memory_mib;
  for (size_t i = 0; i < shape.counted.size(); ++i) node.free_counted[i] -= shape.counted[i];
  node.free_gpus = static_cast<GpuMask>(node.free_gpus & ~gpus);
  const int32_t size = gpus == 0 ? 0 : node.free_gpu_memory_mib[std::countr_zero(gpus)];
  for (GpuMask rest = gpus; rest != 0; rest = static_cast<GpuMask>(rest & (rest - 1))) {
    const int i = std::countr_zero(rest);
    auto& share = node.free_share[static_cast<size_t>(i)];
    share = static_cast<int16_t>(share - (shape.gpus > 0 ? kWholeGpu : shape.share));
    node.free_gpu_memory_mib[static_cast<size_t>(i)] -=
        shape.gpus > 0 ? size : shape.gpu_memory_mib;
  }
  Changed(index, before);
}

// The inverse of Take. An unhealthy device has kWholeGpu less, so it does not become wholly free
// here.
void State::GiveBack(NodeIndex index, const Shape& shape, GpuMask gpus) {
  NodeState& node = nodes_[index];
  const Contribution before = ContributionOf(node);
  node.free_cpu_milli += shape.cpu_milli;
  node.free_memory_mib += shape.memory_mib;
  for (size_t i = 0; i < shape.counted.size(); ++i) node.free_counted[i] += shape.counted[i];
  const uint16_t model = group_models_[node.group];
  for (GpuMask rest = gpus; rest != 0; rest = static_cast<GpuMask>(rest & (rest - 1))) {
    const auto i = static_cast<size_t>(std::countr_zero(rest));
    node.free_share[i] =
        static_cast<int16_t>(node.free_share[i] + (shape.gpus > 0 ? kWholeGpu : shape.share));
    node.free_gpu_memory_mib[i] += shape.gpus > 0
                                       ? static_cast<int32_t>(topology_->models()[model].memory_mib)
                                       : shape.gpu_memory_mib;
    if (node.free_share[i] == kWholeGpu) {
      node.free_gpus = static_cast<GpuMask>(node.free_gpus | 1u << i);
    }
  }
  Changed(index, before);
}

// The tasks of a node form a list from the newest to the oldest. A removed record keeps both
// neighbours, so that a roll-back in reverse order puts the task back at the same place.
void State::Link(TaskSlot slot) {
  TaskRecord& task = tasks_[static_cast<uint32_t>(slot)];
  if (task.older != kNoTask) tasks_[static_cast<uint32_t>(task.older)].newer = slot;
  if (task.newer != kNoTask) {
    tasks_[static_cast<uint32_t>(task.newer)].older = slot;
  } else {
    newest_task_[task.node] = slot;
  }
  ++task_count_;
}

void State::Unlink(TaskSlot slot) {
  const TaskRecord& task = tasks_[static_cast<uint32_t>(slot)];
  if (task.older != kNoTask) tasks_[static_cast<uint32_t>(task.older)].newer = task.newer;
  if (task.newer != kNoTask) {
    tasks_[static_cast<uint32_t>(task.newer)].older = task.older;
  } else {
    newest_task_[task.node] = task.older;
  }
  --task_count_;
}

TaskSlot State::Place(NodeIndex node, ShapeId shape_id, GpuMask gpus, uint64_t owner) {
  const Shape& shape = shapes_[shape_id];
  CHECK(owner != 0);
  CHECK(FitsHost(nodes_[node], shape)) << "node " << node << " lacks what the task needs";
  const GpuMask eligible = shape.needs_devices() ? EligibleGpus(nodes_[node], shape) : GpuMask{0};
  CHECK((gpus & ~eligible) == 0) << "node " << node << " lacks the devices that the task takes";
  CHECK(CountGpus(gpus) == (shape.share > 0 ? 1 : shape.gpus));
  // The last freed slot is used first. The roll-back restores this order, so that equal histories
  // give equal slots.
  const bool fresh = free_slots_.empty();
  const TaskSlot slot = fresh ? TaskSlot{static_cast<uint32_t>(tasks_.size())} : free_slots_.back();
  if (fresh) {
    tasks_.emplace_back();
  } else {
    free_slots_.pop_back();
  }
  tasks_[static_cast<uint32_t>(slot)] = {node, shape_id, owner, gpus, kNoTask, newest_task_[node]};
  Link(slot);
  Take(node, shape, gpus);
  log_.Append({Inverse::Kind::kPlaced, fresh, 0, {}, node, slot});
  return slot;
}

void State::Remove(TaskSlot slot) {
  CHECK(static_cast<uint32_t>(slot) < tasks_.size());
  TaskRecord& task = tasks_[static_cast<uint32_t>(slot)];
  CHECK(task.owner != 0) << "a task is removed twice";
  Unlink(slot);
  GiveBack(task.node, shapes_[task.shape], task.gpus);
  // The record is kept until the commit, because the slot may be used again before a roll-back
  // needs it.
  removed_.push_back(task);
  log_.Append({Inverse::Kind::kRemoved, false, 0, {}, task.node, slot});
  task = {};
  free_slots_.push_back(slot);
}

void State::ApplyCondition(NodeIndex node, spec::NodeCondition condition) {
  const Contribution before = ContributionOf(nodes_[node]);
  nodes_[node].condition = condition;
  Changed(node, before);
}

void State::SetCondition(NodeIndex node, spec::NodeCondition condition) {
  if (nodes_[node].condition == condition) return;
  log_.Append({Inverse::Kind::kCondition, false, 0, nodes_[node].condition, node, kNoTask});
  ApplyCondition(node, condition);
}

void State::ApplyDevice(NodeIndex index, uint32_t device, bool healthy) {
  NodeState& node = nodes_[index];
  const Contribution before = ContributionOf(node);
  const auto bit = static_cast<GpuMask>(1u << device);
  auto& share = node.free_share[device];
  share = static_cast<int16_t>(share + (healthy ? kWholeGpu : -kWholeGpu));
  node.unhealthy = static_cast<GpuMask>(node.unhealthy ^ bit);
  node.free_gpus =
      static_cast<GpuMask>(share == kWholeGpu ? node.free_gpus | bit : node.free_gpus & ~bit);
  Changed(index, before);
}

void State::SetDeviceHealthy(NodeIndex node, uint32_t device, bool healthy) {
  CHECK(device < nodes_[node].devices) << "node " << node << " has no device " << device;
  const bool was = (nodes_[node].unhealthy >> device & 1) == 0;
  if (was == healthy) return;
  log_.Append({Inverse::Kind::kDevice, was, static_cast<uint16_t>(device), {}, node, kNoTask});
  ApplyDevice(node, device, healthy);
}

void State::SetHealth(NodeIndex node, uint16_t thousandths) {
  CHECK(thousandths <= 1'000);
  if (health_[node] == thousandths) return;
  log_.Append({Inverse::Kind::kHealth, false, health_[node], {}, node, kNoTask});
  health_[node] = thousandths;
  changed_[changes_++ % kKeptChanges] = node;
}

GpuMask State::ChooseForOthers(NodeIndex index, int64_t devices, GpuMask kept) const {
  const NodeState& node = nodes_[index];
  uint32_t held = 0;
  for (TaskSlot slot = newest_task_[index]; slot != kNoTask; slot = task(slot).older) {
    held |= task(slot).gpus;
  }
  const uint32_t there = ((1u << node.devices) - 1) & ~held;
  GpuMask chosen = 0;
  for (const uint32_t among : {there & kept, there & ~uint32_t{node.unhealthy}, there}) {
    for (uint32_t d = 0; d < node.devices && CountGpus(chosen) < devices; ++d) {
      chosen = static_cast<GpuMask>(chosen | (among & 1u << d));
    }
  }
  return chosen;
}

// Replaces what others used before.
void State::ApplyUse(NodeIndex index, const NodeUse& use) {
  NodeState& node = nodes_[index];
  const Contribution before = ContributionOf(node);
  const NodeUse old = std::exchange(uses_[index], use);
  node.free_cpu_milli += old.cpu_milli - use.cpu_milli;
  node.free_memory_mib += old.memory_mib - use.memory_mib;
  for (size_t i = 0; i < use.counted.size(); ++i) {
    node.free_counted[i] += old.counted[i] - use.counted[i];
  }
  for (uint32_t d = 0; d < node.devices; ++d) {
    const int was = old.gpus >> d & 1, is = use.gpus >> d & 1;
    if (was == is) continue;
    const auto bit = static_cast<GpuMask>(1u << d);
    auto& share = node.free_share[d];
    share = static_cast<int16_t>(share + (was - is) * kWholeGpu);
    node.free_gpus =
        static_cast<GpuMask>(share == kWholeGpu ? node.free_gpus | bit : node.free_gpus & ~bit);
  }
  Changed(index, before);
}

void State::SetUse(NodeIndex node, const NodeUse& use) {
  if (uses_[node] == use) return;
  log_.Append({Inverse::Kind::kUse, false, 0, {}, node, kNoTask});
  replaced_.push_back(uses_[node]);
  ApplyUse(node, use);
}

// Requires that the changes are undone in reverse order: a slot or record at the end of its list is
// then the one that the change put there.
void State::Undo(const Inverse& inverse) {
  switch (inverse.kind) {
    case Inverse::Kind::kPlaced: {
      TaskRecord& task = tasks_[static_cast<uint32_t>(inverse.task)];
      Unlink(inverse.task);
      GiveBack(task.node, shapes_[task.shape], task.gpus);
      if (inverse.flag) {
        tasks_.pop_back();
      } else {
        task = {};
        free_slots_.push_back(inverse.task);
      }
      return;
    }
    case Inverse::Kind::kRemoved: {
      TaskRecord& task = tasks_[static_cast<uint32_t>(inverse.task)];
      task = removed_.back();
      removed_.pop_back();
      free_slots_.pop_back();
      Link(inverse.task);
      Take(task.node, shapes_[task.shape], task.gpus);
      return;
    }
    case Inverse::Kind::kCondition:
      return ApplyCondition(inverse.node, inverse.condition);
    case Inverse::Kind::kDevice:
      return ApplyDevice(inverse.node, inverse.device_or_health, inverse.flag);
    case Inverse::Kind::kHealth:
      health_[inverse.node] = inverse.device_or_health;
      changed_[changes_++ % kKeptChanges] = inverse.node;
      return;
    case Inverse::Kind::kUse:
      ApplyUse(inverse.node, replaced_.back());
      replaced_.pop_back();
      return;
  }
}

void State::RollBack(Savepoint to) {
  log_.RollBack(to, [this](const Inverse& inverse) { Undo(inverse); });
}

void State::BumpVersions(NodeIndex node) {
  for (size_t i = 0; i < levels_.size(); ++i) {
    ++levels_[i][topology_->levels()[i].domain_of_node[node]].version;
  }
  for (size_t i = 0; i < groupings_.size(); ++i) {
    ++groupings_[i][topology_->groupings()[i].level.domain_of_node[node]].version;
  }
}

void State::Commit() {
  for (const Inverse& change : log_.entries()) {
    if (change.kind != Inverse::Kind::kPlaced) BumpVersions(change.node);
  }
  log_.Commit();
  removed_.clear();
  replaced_.clear();
  if (verify_) {
    const std::string differences = Recount();
    CHECK(differences.empty()) << differences;
  }
}

void State::MoveTo(const spec::Topology& topology, std::span<const NodeIndex> numbers,
                   const std::vector<bool>& kept) {
  CHECK(!has_uncommitted() && numbers.size() == size() && kept.size() == size());
  State next(topology, verify_);
  next.shapes_ = std::move(shapes_);
  for (uint32_t shape = 0; shape < next.shapes_.size(); ++shape) {
    next.allowed_.push_back(next.AllowedGroups(next.shapes_[static_cast<ShapeId>(shape)]));
  }
  for (NodeIndex old = 0; old < size(); ++old) {
    const NodeIndex now = numbers[old];
    if (kept[old]) {
      const GroupIndex group = next.nodes_[now].group;
      next.nodes_[now] = nodes_[old];
      next.nodes_[now].group = group;
    } else {
      CHECK(newest_task_[old] == kNoTask) << "a node with tasks is of another kind";
      next.nodes_[now].condition = nodes_[old].condition;
      for (uint32_t device = 0; device < next.nodes_[now].devices; ++device) {
        if ((nodes_[old].unhealthy >> device & 1) != 0) next.ApplyDevice(now, device, false);
      }
      NodeUse use = uses_[old];
      use.gpus = next.ChooseForOthers(now, CountGpus(use.gpus), use.gpus);
      next.ApplyUse(now, use);
    }
    next.uses_[now] = kept[old] ? uses_[old] : next.uses_[now];
    next.newest_task_[now] = newest_task_[old];
    next.health_[now] = health_[old];
  }
  next.tasks_ = std::move(tasks_);
  for (TaskRecord& task : next.tasks_) {
    if (task.owner != 0) task.node = numbers[task.node];
  }
  next.free_slots_ = std::move(free_slots_);
  next.task_count_ = task_count_;
  // The counters are counted afresh, as the domains of the new topology are others. Their versions
  // begin at zero.
  next.levels_ = CountDomains(topology, next.nodes_, Forest::kNetwork);
  next.groupings_ = CountDomains(topology, next.nodes_, Forest::kGroupings);
  *this = std::move(next);
  Commit();
}

std::string State::Recount() const { return scheduler::Recount(*this); }

// The order of free slots is included, because it decides the slots of later tasks.
uint64_t State::Fingerprint() const {
  uint64_t hash = Hash64(nodes_.data(), nodes_.size() * sizeof(NodeState));
  hash = Hash64(health_.data(), health_.size() * sizeof(uint16_t), hash);
  for (const NodeUse& use : uses_) {
    // Its gaps are not hashed.
    hash = Hash64(use.counted.data(), sizeof use.counted, hash);
    const std::array<int32_t, 3> rest = {use.cpu_milli, use.memory_mib, use.gpus};
    hash = Hash64(rest.data(), sizeof rest, hash);
  }
  hash = Hash64(newest_task_.data(), newest_task_.size() * sizeof(TaskSlot), hash);
  for (const TaskRecord& task : tasks_) {
    const std::array<uint64_t, 3> words = {
        task.owner, uint64_t{task.node} << 32 | static_cast<uint32_t>(task.shape),
        uint64_t{task.gpus} << 32 | static_cast<uint32_t>(task.older)};
    hash = Hash64(words.data(), sizeof words, hash);
  }
  return Hash64(free_slots_.data(), free_slots_.size() * sizeof(TaskSlot), hash);
}

}  // namespace longhaul::scheduler
