// The cluster as it stands: what is free on each node and in each domain, and which task holds
// what.
//
// Every change appends its inverse to a log, so an attempt is made on the state itself and either
// committed or rolled back to a savepoint; nested savepoints are allowed. Counters of domains move
// with each change and are equal to a recount at all times (Recount; checked after each commit in
// debug builds). A what-if question copies the state: 128 bytes a node.
//
// Deterministic: a function of the topology and the calls. Leaves out jobs, queues and time: a
// task is a shape on a node with an owner that only the caller understands.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "scheduler/state/shape.h"
#include "scheduler/state/undo_log.h"
#include "spec/cluster/topology.h"

namespace longhaul::scheduler {

using NodeIndex = uint32_t;   // dense, as spec::Topology numbers them
using GroupIndex = uint16_t;  // dense: nodes with the same device model and class
using GpuMask = uint16_t;     // bit i: device i of a node

enum class TaskSlot : uint32_t {};  // where the state keeps a task
inline constexpr TaskSlot kNoTask{~uint32_t{0}};

// Two cache lines, no gaps: compared and hashed as bytes.
struct alignas(64) NodeState {
  // Thousandths free of each device; an unhealthy device has kWholeGpu less, so zero or below. A
  // device that the node doesn't have has zero.
  std::array<int16_t, spec::kMaxDevices> free_share{};
  std::array<int32_t, spec::kMaxDevices> free_gpu_memory_mib{};
  std::array<int32_t, spec::kMaxCountedResources> free_counted{};
  int32_t free_cpu_milli = 0;
  int32_t free_memory_mib = 0;
  GpuMask free_gpus = 0;  // devices that are wholly free and healthy
  GroupIndex group = 0;
  uint8_t devices = 0;
  spec::NodeCondition condition = spec::NodeCondition::kReady;
  GpuMask unhealthy = 0;

  bool ready() const { return condition == spec::NodeCondition::kReady; }
  // Thousandths free of healthy devices.
  int32_t free_milli() const;
};
static_assert(sizeof(NodeState) == 128);

// How many devices a mask has. Plain arithmetic: the baseline x86-64 has no instruction for it, and
// std::popcount would be a call.
inline int CountGpus(GpuMask mask) {
  uint32_t x = mask;
  x -= x >> 1 & 0x5555;
  x = (x & 0x3333) + (x >> 2 & 0x3333);
  x = (x + (x >> 4)) & 0x0f0f;
  return static_cast<int>((x + (x >> 8)) & 0x1f);
}

// Whether cpu, memory and counted resources suffice. Less than nothing may be free (NodeUse); that
// matters only to those that need some of it.
inline bool FitsHost(const NodeState& node, const Shape& shape) {
  const auto suffices = [](int32_t free, int32_t need) { return (free >= need) | (need == 0); };
  bool fits = suffices(node.free_cpu_milli, shape.cpu_milli) &&
              suffices(node.free_memory_mib, shape.memory_mib);
  for (size_t i = 0; i < shape.counted.size(); ++i) {
    fits &= suffices(node.free_counted[i], shape.counted[i]);
  }
  return fits;
}

// Devices that could serve the shape: wholly free ones, or those with share and memory enough.
// Requires a shape that needs devices.
inline GpuMask EligibleGpus(const NodeState& node, const Shape& shape) {
  if (shape.gpus > 0 && shape.gpu_memory_mib == 0) return node.free_gpus;
  uint32_t mask = 0;
  const int share = shape.gpus > 0 ? kWholeGpu : shape.share;
  for (uint32_t i = 0; i < node.devices; ++i) {
    const bool fits =
        node.free_share[i] >= share && node.free_gpu_memory_mib[i] >= shape.gpu_memory_mib;
    mask |= static_cast<uint32_t>(fits) << i;
  }
  return static_cast<GpuMask>(mask);
}

// What others use of a node. A device is used whole.
struct NodeUse {
  int32_t cpu_milli = 0;
  int32_t memory_mib = 0;
  std::array<int32_t, spec::kMaxCountedResources> counted{};
  GpuMask gpus = 0;

  friend bool operator==(const NodeUse&, const NodeUse&) = default;
};

struct TaskRecord {
  NodeIndex node = 0;
  ShapeId shape{};
  uint64_t owner = 0;  // the caller's, never zero for a task that is placed
  GpuMask gpus = 0;    // one bit for a fraction
  // Neighbours among the tasks of the node, newest first.
  TaskSlot newer = kNoTask;
  TaskSlot older = kNoTask;
};

// What is free in a domain, on nodes that are ready.
struct DomainCounters {
  int64_t free_milli = 0;    // of healthy devices
  uint32_t free_gpus = 0;    // wholly free ones
  uint32_t free_hosts = 0;   // with devices, all of them wholly free
  uint32_t ready_hosts = 0;  // with or without devices
  // Ready hosts by how many wholly free GPUs they have: [k] is "exactly k".
  std::array<uint32_t, spec::kMaxDevices + 1> hosts_with{};
  // Raised by a commit after which something is free here that was not; what waits for room in
  // this domain need not look again before.
  uint64_t version = 0;

  friend bool operator==(const DomainCounters&, const DomainCounters&) = default;
};

class State {
 public:
  // `topology` outlives the state and its copies. `verify` recounts at each commit.
#ifdef NDEBUG
  static constexpr bool kVerifyByDefault = false;
#else
  static constexpr bool kVerifyByDefault = true;
#endif
  explicit State(const spec::Topology& topology, bool verify = kVerifyByDefault);

  const spec::Topology& topology() const { return *topology_; }
  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }
  std::span<const NodeState> nodes() const { return nodes_; }
  const NodeState& node(NodeIndex node) const { return nodes_[node]; }
  std::span<const GroupIndex> groups() const { return groups_; }  // all group numbers, ascending
  // The device model of a group; kMaxDeviceModels for nodes without devices.
  uint16_t group_model(GroupIndex group) const { return group_models_[group]; }
  uint16_t group_class(GroupIndex group) const { return group_classes_[group]; }

  // --- Shapes.
  // Requires room for another shape, where it is a new one.
  ShapeId Intern(const Shape& shape);
  bool has_room_for_shapes() const { return shapes_.size() < kMaxShapes; }
  const Shape& shape(ShapeId id) const { return shapes_[id]; }
  const ShapeTable& shapes() const { return shapes_; }
  uint32_t shape_count() const { return shapes_.size(); }
  // Whether nodes of the group may serve the shape at all (device model, labels, taints).
  bool Allows(ShapeId shape, GroupIndex group) const {
    return (allowed_[static_cast<uint32_t>(shape)][group / 64] >> (group % 64) & 1) != 0;
  }
  // The same for a shape that the table need not know.
  bool Allows(const Shape& shape, GroupIndex group) const;
  // Whether the node, whatever its condition, has what one task of the shape needs.
  bool Fits(NodeIndex node, ShapeId shape) const;
  // Thousandths; 1,000 is good.
  uint16_t health(NodeIndex node) const { return health_[node]; }
  // How many such tasks the node could take at once, whatever its condition; at most `limit`.
  uint32_t Slots(NodeIndex node, ShapeId shape, uint32_t limit) const;
  // How many an empty, healthy node of that kind could take; at most `limit`.
  uint32_t SlotsWhenEmpty(NodeIndex node, ShapeId shape, uint32_t limit) const;
  // The same by node, for a shape that the table need not know.
  std::vector<uint32_t> SlotsWhenEmpty(const Shape& shape, uint32_t limit) const;
  // The devices for one task: whole GPUs from the fewest NVLink islands, there from the fullest
  // that serve; a fraction on the fullest device that fits. Requires Fits.
  GpuMask ChooseGpus(NodeIndex node, ShapeId shape) const;

  // --- Domains.
  const DomainCounters& domain(uint32_t level, uint32_t domain) const {
    return levels_[level][domain];
  }
  std::span<const DomainCounters> level(uint32_t level) const { return levels_[level]; }
  std::span<const DomainCounters> grouping(uint32_t grouping) const { return groupings_[grouping]; }
  const DomainCounters& cluster() const { return levels_.back().front(); }

  // --- Changes. Each may be rolled back until it is committed.
  // Puts a task of the shape on these devices. Requires that they and the rest of the node are
  // free, and owner != 0; the node's condition is the caller's business.
  TaskSlot Place(NodeIndex node, ShapeId shape, GpuMask gpus, uint64_t owner);
  void Remove(TaskSlot task);
  void SetCondition(NodeIndex node, spec::NodeCondition condition);
  void SetDeviceHealthy(NodeIndex node, uint32_t device, bool healthy);
  void SetHealth(NodeIndex node, uint16_t thousandths);
  // Sets what others use of the node. Requires amounts of zero or more, and devices that no task
  // holds. More cpu, memory and counted resources than are free may be used.
  void SetUse(NodeIndex node, const NodeUse& use);
  const NodeUse& use(NodeIndex node) const { return uses_[node]; }
  // As many devices of the node that no task holds, as there are; those of `kept` first, then
  // healthy ones.
  GpuMask ChooseForOthers(NodeIndex node, int64_t devices, GpuMask kept) const;

  Savepoint Save() const { return log_.Save(); }
  void RollBack(Savepoint to);
  void Commit();
  bool has_uncommitted() const { return !log_.entries().empty(); }

  // Continues on another topology, which outlives this: node i is node numbers[i] there, the others
  // of its nodes have no tasks. Where kept[i] is false, the node is of another kind now and only
  // its condition and the health of its devices stay. Requires that numbers rise, that such a node
  // has no task, that the others are of kinds equal but for the name, equal device models and
  // classes, and no uncommitted change. Shapes and slots of tasks stay; changes() begins anew.
  void MoveTo(const spec::Topology& topology, std::span<const NodeIndex> numbers,
              const std::vector<bool>& kept);

  // --- Tasks.
  const TaskRecord& task(TaskSlot task) const { return tasks_[static_cast<uint32_t>(task)]; }
  uint32_t task_count() const { return task_count_; }
  // The newest task of the node, then TaskRecord::older; kNoTask at the end.
  TaskSlot newest_task(NodeIndex node) const { return newest_task_[node]; }

  // --- For indexes that follow this state: the nodes changed (rolled back ones too), numbered from
  // 0. Only the last kKeptChanges are kept.
  static constexpr uint64_t kKeptChanges = 8'192;
  uint64_t changes() const { return changes_; }
  NodeIndex change(uint64_t number) const { return changed_[number % kKeptChanges]; }

  // Differences between the counters and a count from scratch, one a line; empty when right.
  std::string Recount() const;
  // Of what is placed, free and healthy, and of the tasks' slots: equal after equal histories.
  uint64_t Fingerprint() const;

 private:
  // What a change replaced.
  struct Inverse {
    enum class Kind : uint8_t { kPlaced, kRemoved, kCondition, kDevice, kHealth, kUse };
    Kind kind;
    bool flag = false;  // the slot is a new one; the device was healthy
    uint16_t device_or_health = 0;
    spec::NodeCondition condition{};
    NodeIndex node = 0;
    TaskSlot task = kNoTask;
  };
  // What a node adds to its domains.
  struct Contribution {
    int32_t free_milli = 0;
    uint16_t free_gpus = 0;
    bool free_host = false;
    bool ready = false;
    friend bool operator==(const Contribution&, const Contribution&) = default;
  };
  static Contribution ContributionOf(const NodeState& node);

  void InitGroups();
  void Take(NodeIndex node, const Shape& shape, GpuMask gpus);
  void GiveBack(NodeIndex node, const Shape& shape, GpuMask gpus);
  void Link(TaskSlot task);
  void Unlink(TaskSlot task);
  void Undo(const Inverse& inverse);
  void ApplyCondition(NodeIndex node, spec::NodeCondition condition);
  void ApplyDevice(NodeIndex node, uint32_t device, bool healthy);
  void ApplyUse(NodeIndex node, const NodeUse& use);
  void Changed(NodeIndex node, const Contribution& before);
  void BumpVersions(NodeIndex node);
  std::vector<uint64_t> AllowedGroups(const Shape& shape) const;

  const spec::Topology* topology_;
  bool verify_;
  std::vector<NodeState> nodes_;
  std::vector<GroupIndex> groups_;
  std::vector<uint16_t> group_models_;
  std::vector<uint16_t> group_classes_;
  ShapeTable shapes_;
  std::vector<std::vector<uint64_t>> allowed_;  // by shape, a bit for each group
  std::vector<std::vector<DomainCounters>> levels_;
  std::vector<std::vector<DomainCounters>> groupings_;
  std::vector<TaskRecord> tasks_;
  std::vector<TaskSlot> free_slots_;  // last in, first out
  std::vector<TaskRecord> removed_;   // since the last commit, for its roll-back
  std::vector<NodeUse> replaced_;     // the same
  std::vector<TaskSlot> newest_task_;
  std::vector<uint16_t> health_;
  std::vector<NodeUse> uses_;
  uint32_t task_count_ = 0;
  UndoLog<Inverse> log_;
  std::vector<NodeIndex> changed_;  // a ring
  uint64_t changes_ = 0;
};

}  // namespace longhaul::scheduler
