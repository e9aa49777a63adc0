#include "scheduler/gang/internal/shape_tables.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace longhaul::scheduler::internal {

// The size of a table is the product of (tasks + 1) over the indexed groups. With the most numerous
// group as the value instead of an index, the product is the least.
GroupOrder::GroupOrder(std::span<const TaskGroup> groups) : order(groups.size()) {
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return groups[a].tasks < groups[b].tasks; });
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    const TaskGroup& group = groups[order[i]];
    most_tasks.push_back(group.tasks);
    most_slices.push_back(group.tasks / group.slice);
    task_entries *= static_cast<size_t>(group.tasks) + 1;
    slice_entries *= static_cast<size_t>(group.tasks / group.slice) + 1;
  }
}

// Enumerates the counts of the indexed groups that fit on the host. Of the last group only the most
// is stored, as fewer of it are always possible too. `load.offset` is the entry of the counts and
// is kept in step with them.
std::optional<std::vector<HostLoad>> LoadsOf(const FreeHost& host,
                                             std::span<const TaskGroup> groups,
                                             const GroupOrder& order, size_t max_loads) {
  const auto most_beside = [&](const TaskGroup& group, const ResourceVector& left, int32_t limit) {
    if ((group.host_classes >> host.host_class & 1) == 0) return 0;
    int64_t most = limit;
    for (size_t r = 0; r < left.size(); ++r) {
      if (group.demand[r] > 0) most = std::min(most, left[r] / group.demand[r]);
    }
    return static_cast<int32_t>(most);
  };
  std::vector<HostLoad> loads;
  HostLoad load;
  bool complete = true;
  const auto descend = [&](const auto& self, size_t i, const ResourceVector& left,
                           size_t stride) -> void {
    if (loads.size() >= max_loads) {
      complete = false;
      return;
    }
    if (i == order.indexed()) {
      const TaskGroup& last = order.Last(groups);
      load.last = most_beside(last, left, last.tasks);
      loads.push_back(load);
      return;
    }
    const TaskGroup& group = groups[order.order[i]];
    const int32_t most = most_beside(group, left, group.tasks);
    ResourceVector rest = left;
    for (int32_t n = 0; n <= most; ++n) {
      load.tasks[i] = n;
      self(self, i + 1, rest, stride * (static_cast<size_t>(group.tasks) + 1));
      load.offset += stride;
      for (size_t r = 0; r < rest.size(); ++r) rest[r] -= group.demand[r];
    }
    load.offset -= stride * (static_cast<size_t>(most) + 1);
    load.tasks[i] = 0;
  };
  descend(descend, 0, host.free, 1);
  if (!complete) return std::nullopt;
  return loads;
}

// Joins the hosts one by one: entry x loads entries. A load of zero tasks always exists, so the
// value of an entry never falls when a host is added. Values are capped at the tasks of the last
// group, because more than these are of no use.
bool LeafTables::Fill(std::span<const FreeHost> hosts, int64_t& steps, bool decisions) {
  const int32_t limit = order_.Last(groups_).tasks;
  table_.assign(order_.task_entries, kCannot);
  table_[0] = 0;
  loads_.clear();
  decisions_.clear();
  std::vector<int32_t> next;
  for (const FreeHost& host : hosts) {
    const auto entries = static_cast<int64_t>(order_.task_entries);
    auto loads = LoadsOf(host, groups_, order_, static_cast<size_t>(steps / entries + 1));
    if (!loads || static_cast<int64_t>(loads->size()) * entries > steps) return false;
    steps -= static_cast<int64_t>(loads->size()) * entries;
    next.assign(order_.task_entries, kCannot);
    std::vector<int32_t> decided(decisions ? order_.task_entries : 0, -1);
    for (size_t entry = 0; entry < order_.task_entries; ++entry) {
      for (size_t l = 0; l < loads->size(); ++l) {
        const HostLoad& load = (*loads)[l];
        size_t digits = entry;
        bool fits = true;
        for (size_t i = 0; i < order_.indexed() && fits; ++i) {
          const auto base = static_cast<size_t>(order_.most_tasks[i]) + 1;
          fits = static_cast<size_t>(load.tasks[i]) <= digits % base;
          digits /= base;
        }
        if (!fits || table_[entry - load.offset] < 0) continue;
        const int32_t sum = std::min(limit, table_[entry - load.offset] + load.last);
        if (sum <= next[entry]) continue;
        next[entry] = sum;
        if (decisions) decided[entry] = static_cast<int32_t>(l);
      }
    }
    table_.swap(next);
    if (decisions) {
      loads_.push_back(std::move(*loads));
      decisions_.push_back(std::move(decided));
    }
  }
  return true;
}

// Keeps the entries that are whole slices of every group, and rounds the last group down to whole
// slices. The digits of an entry of slices are scaled to those of an entry of tasks.
std::vector<int32_t> LeafTables::Slices() const {
  const int32_t last_slice = order_.Last(groups_).slice;
  std::vector<int32_t> slices(order_.slice_entries, kCannot);
  for (size_t entry = 0; entry < order_.slice_entries; ++entry) {
    size_t digits = entry;
    size_t tasks = 0;
    size_t stride = 1;
    for (size_t i = 0; i < order_.indexed(); ++i) {
      const auto base = static_cast<size_t>(order_.most_slices[i]) + 1;
      tasks += stride * (digits % base) * static_cast<size_t>(groups_[order_.order[i]].slice);
      stride *= static_cast<size_t>(order_.most_tasks[i]) + 1;
      digits /= base;
    }
    if (table_[tasks] >= 0) slices[entry] = table_[tasks] / last_slice;
  }
  return slices;
}

std::vector<std::array<int32_t, kMaxGangShapes>> LeafTables::Walk(size_t slice_entry,
                                                                  int32_t last) const {
  size_t entry = 0;
  size_t stride = 1;
  for (size_t i = 0; i < order_.indexed(); ++i) {
    const auto base = static_cast<size_t>(order_.most_slices[i]) + 1;
    entry += stride * (slice_entry % base) * static_cast<size_t>(groups_[order_.order[i]].slice);
    stride *= static_cast<size_t>(order_.most_tasks[i]) + 1;
    slice_entry /= base;
  }
  int32_t wanted = last * order_.Last(groups_).slice;
  std::vector<std::array<int32_t, kMaxGangShapes>> tasks(loads_.size());
  for (size_t host = loads_.size(); host-- > 0;) {
    const HostLoad& load = loads_[host][static_cast<size_t>(decisions_[host][entry])];
    for (size_t i = 0; i < order_.indexed(); ++i) tasks[host][order_.order[i]] = load.tasks[i];
    // What isn't needed of the last group stays free on the hosts before.
    const int32_t taken = std::min(wanted, load.last);
    tasks[host][order_.order.back()] = taken;
    wanted -= taken;
    entry -= load.offset;
  }
  CHECK(wanted == 0 && entry == 0);
  return tasks;
}

SliceEntries::SliceEntries(const GroupOrder& order) : order_(order) {}

bool SliceEntries::Part(size_t part, size_t entry) const {
  for (const int32_t most : order_.most_slices) {
    const auto base = static_cast<size_t>(most) + 1;
    if (part % base > entry % base) return false;
    part /= base;
    entry /= base;
  }
  return true;
}

std::vector<int32_t> JoinTables(std::span<const int32_t> a, std::span<const int32_t> b,
                                const GroupOrder& order, int64_t& steps) {
  const SliceEntries entries(order);
  std::vector<int32_t> joined(a.size(), kCannot);
  for (size_t entry = 0; entry < a.size(); ++entry) {
    for (size_t part = 0; part <= entry; ++part) {
      if (b[part] < 0 || !entries.Part(part, entry) || a[entry - part] < 0) continue;
      joined[entry] = std::max(joined[entry], a[entry - part] + b[part]);
    }
  }
  steps -= static_cast<int64_t>(a.size() * a.size());
  return joined;
}

}  // namespace longhaul::scheduler::internal
