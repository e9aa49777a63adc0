#include "scheduler/victims/move_plan.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace longhaul::scheduler {

namespace {

class Packing {
 public:
  Packing(std::span<const MovedTask> tasks, std::span<const int32_t> room,
          std::span<const int32_t> preference, int64_t max_steps)
      : tasks_(tasks),
        room_(room.begin(), room.end()),
        preference_(preference),
        max_steps_(max_steps),
        order_(tasks.size()),
        target_(tasks.size(), -1) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return tasks_[a].slots > tasks_[b].slots; });
    needed_.assign(tasks.size() + 1, 0);
    for (size_t i = tasks.size(); i-- > 0;) {
      needed_[i] = needed_[i + 1] + tasks_[order_[i]].slots;
    }
    for (const int32_t host : preference_) left_ += room_[static_cast<size_t>(host)];
  }

  // Depth first: the first descent is first fit, largest first.
  bool Place(size_t i) {
    if (i == order_.size()) return true;
    if (left_ < needed_[i]) return false;
    const size_t task = order_[i];
    const int32_t slots = tasks_[task].slots;
    // An equal task goes no earlier in the order than its twin before it.
    size_t from = 0;
    if (i > 0 && tasks_[order_[i - 1]].slots == slots) from = place_of_last_[i - 1];
    place_of_last_.resize(order_.size());
    std::vector<int32_t> tried;  // rooms: hosts with the same room are alike
    for (size_t p = from; p < preference_.size(); ++p) {
      const auto host = static_cast<size_t>(preference_[p]);
      if (room_[host] < slots) continue;
      if (std::find(tried.begin(), tried.end(), room_[host]) != tried.end()) continue;
      tried.push_back(room_[host]);
      if (++steps_ > max_steps_) return false;
      room_[host] -= slots;
      left_ -= slots;
      target_[task] = preference_[p];
      place_of_last_[i] = p;
      if (Place(i + 1)) return true;
      room_[host] += slots;
      left_ += slots;
      target_[task] = -1;
    }
    return false;
  }

  bool complete() const { return steps_ <= max_steps_; }
  const std::vector<int32_t>& target() const { return target_; }

 private:
  std::span<const MovedTask> tasks_;
  std::vector<int32_t> room_;
  std::span<const int32_t> preference_;
  int64_t max_steps_;
  int64_t steps_ = 0;
  int64_t left_ = 0;
  std::vector<size_t> order_;
  std::vector<int32_t> target_;
  std::vector<int64_t> needed_;
  std::vector<size_t> place_of_last_;
};

// Where each task is while the plan unfolds.
class MoveOrder {
 public:
  MoveOrder(std::span<const MovedTask> tasks, std::span<const int32_t> targets,
            std::span<const int32_t> free, std::span<const int32_t> spares)
      : tasks_(tasks), targets_(targets), free_(free.begin(), free.end()), spares_(spares) {
    for (size_t i = 0; i < tasks.size(); ++i) {
      at_.push_back(tasks[i].from);
      if (targets[i] != tasks[i].from) waiting_.push_back(i);
    }
  }

  std::vector<MoveAction> Run() {
    while (!waiting_.empty()) {
      if (!MoveOne() && !BreakCircle()) {
        CHECK(false) << "the targets lack room for " << waiting_.size() << " tasks";
      }
    }
    return std::move(actions_);
  }

 private:
  int32_t& Free(int32_t host) { return free_[static_cast<size_t>(host)]; }

  void Start(size_t i, int32_t host, MoveStep step) {
    Free(host) -= tasks_[i].slots;
    if (at_[i] >= 0) Free(at_[i]) += tasks_[i].slots;
    at_[i] = host;
    actions_.push_back({step, static_cast<int32_t>(i), host});
  }

  bool MoveOne() {
    for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
      const size_t i = *it;
      if (Free(targets_[i]) < tasks_[i].slots) continue;
      Start(i, targets_[i], at_[i] >= 0 ? MoveStep::kMove : MoveStep::kResume);
      waiting_.erase(it);
      return true;
    }
    return false;
  }

  // The cheapest task that stands where another one waits to go leaves for a spare, or is
  // suspended. One that is parked already is no help to park again.
  bool BreakCircle() {
    size_t best = tasks_.size();
    for (const size_t i : waiting_) {
      const bool in_the_way =
          at_[i] >= 0 && std::any_of(waiting_.begin(), waiting_.end(),
                                     [&](size_t other) { return targets_[other] == at_[i]; });
      if (!in_the_way) continue;
      if (best == tasks_.size() || tasks_[i].cost < tasks_[best].cost) best = i;
    }
    if (best == tasks_.size()) return false;
    for (const int32_t host : spares_) {
      const bool wanted = std::any_of(waiting_.begin(), waiting_.end(),
                                      [&](size_t other) { return targets_[other] == host; });
      if (wanted || host == at_[best] || Free(host) < tasks_[best].slots) continue;
      Start(best, host, MoveStep::kPark);
      return true;
    }
    Free(at_[best]) += tasks_[best].slots;
    actions_.push_back({MoveStep::kSuspend, static_cast<int32_t>(best), at_[best]});
    at_[best] = -1;
    return true;
  }

  std::span<const MovedTask> tasks_;
  std::span<const int32_t> targets_;
  std::vector<int32_t> free_;
  std::span<const int32_t> spares_;
  std::vector<int32_t> at_;  // -1: suspended
  std::vector<size_t> waiting_;
  std::vector<MoveAction> actions_;
};

}  // namespace

std::optional<std::vector<int32_t>> FindPlaces(std::span<const MovedTask> tasks,
                                               std::span<const int32_t> room,
                                               std::span<const int32_t> preference,
                                               int64_t max_steps, bool* proven) {
  for (const MovedTask& task : tasks) CHECK(task.slots >= 1) << "a task takes a slot at least";
  for (const int32_t host : preference) {
    CHECK(host >= 0 && static_cast<size_t>(host) < room.size()) << "host " << host;
  }
  Packing packing(tasks, room, preference, max_steps);
  const bool placed = packing.Place(0);
  if (proven != nullptr) *proven = placed || packing.complete();
  if (!placed) return std::nullopt;
  return packing.target();
}

std::vector<MoveAction> OrderMoves(std::span<const MovedTask> tasks,
                                   std::span<const int32_t> targets, std::span<const int32_t> free,
                                   std::span<const int32_t> spares) {
  CHECK(targets.size() == tasks.size());
  return MoveOrder(tasks, targets, free, spares).Run();
}

}  // namespace longhaul::scheduler
