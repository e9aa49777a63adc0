// What a host, a leaf and a domain can take of several groups at once (see unlike_tasks.h).
//
// An entry is a count of each group but the last of the order, mixed radix; its value is the most
// of that last group beside them. Counts are tasks on hosts and while a leaf is filled, whole
// slices from then on.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/gang/unlike_tasks.h"

namespace longhaul::scheduler::internal {

constexpr int32_t kCannot = -(1 << 29);

// The groups in the order of the tables: the most numerous one last.
struct GroupOrder {
  explicit GroupOrder(std::span<const TaskGroup> groups);

  size_t indexed() const { return order.size() - 1; }
  const TaskGroup& Last(std::span<const TaskGroup> groups) const { return groups[order.back()]; }

  std::vector<size_t> order;
  std::vector<int32_t> most_tasks;  // of each indexed group
  std::vector<int32_t> most_slices;
  size_t task_entries = 1;
  size_t slice_entries = 1;
};

// One way to load a host: tasks of the indexed groups, and the most of the last one beside them.
struct HostLoad {
  std::array<int32_t, kMaxGangShapes> tasks{};
  size_t offset = 0;  // of the entry
  int32_t last = 0;
};

// All loads of a host, or nothing when they are more than max_loads.
std::optional<std::vector<HostLoad>> LoadsOf(const FreeHost& host,
                                             std::span<const TaskGroup> groups,
                                             const GroupOrder& order, size_t max_loads);

// A leaf's table in tasks; the decisions of each host when `decisions` is given.
class LeafTables {
 public:
  LeafTables(std::span<const TaskGroup> groups, const GroupOrder& order)
      : groups_(groups), order_(order) {}

  // False when it would take more than the steps left.
  bool Fill(std::span<const FreeHost> hosts, int64_t& steps, bool decisions);

  // In slices, after Fill.
  std::vector<int32_t> Slices() const;
  // The tasks of each host for an entry in slices and `last` slices of the last group.
  std::vector<std::array<int32_t, kMaxGangShapes>> Walk(size_t slice_entry, int32_t last) const;

 private:
  std::span<const TaskGroup> groups_;
  const GroupOrder& order_;
  std::vector<int32_t> table_;
  std::vector<std::vector<HostLoad>> loads_;     // [host]
  std::vector<std::vector<int32_t>> decisions_;  // [host][entry]: the load
};

// Joins two tables in slices: at each entry the best split. Adds its steps.
std::vector<int32_t> JoinTables(std::span<const int32_t> a, std::span<const int32_t> b,
                                const GroupOrder& order, int64_t& steps);

// Entries of slices, and which entries are parts of which: entry - part is an entry too.
class SliceEntries {
 public:
  explicit SliceEntries(const GroupOrder& order);
  bool Part(size_t part, size_t entry) const;

 private:
  const GroupOrder& order_;
};

}  // namespace longhaul::scheduler::internal
