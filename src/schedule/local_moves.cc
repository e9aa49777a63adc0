#include "schedule/local_moves.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "base/check.h"

namespace longhaul::schedule {
namespace {

constexpr double kUnknown = -1;

// The times of an order, without transfers as actions: what is computed arrives after its delay.
class OrderTimes {
 public:
  OrderTimes(const Shape& shape, const Durations& durations) : shape_(shape) {
    for (const Kind kind : {Kind::kForward, Kind::kBackward, Kind::kWeights}) {
      for (uint32_t stage = 0; stage < shape.stages(); ++stage) {
        durations_.push_back(durations.Of(kind, stage));
      }
    }
    for (uint32_t stage = 0; stage < shape.stages(); ++stage) {
      delays_.push_back(HasRemoteNeighbour(shape, stage, true) ? durations.transfer : 0);
    }
  }

  // Nothing: the ranks wait for each other.
  std::optional<OrderCost> CostOf(const Order& order) {
    const size_t cells = size_t{shape_.stages()} * shape_.micro_batches;
    forward_end_.assign(cells, kUnknown);
    backward_end_.assign(cells, kUnknown);
    place_.assign(order.size(), 0);
    now_.assign(order.size(), 0);
    first_.assign(order.size(), 0);
    busy_.assign(order.size(), 0);
    size_t left = 0;
    for (const std::vector<Action>& actions : order) left += actions.size();
    for (bool any = true; left > 0 && any;) {
      any = false;
      for (uint32_t rank = 0; rank < order.size(); ++rank) {
        for (; place_[rank] < order[rank].size(); ++place_[rank], --left) {
          if (!Run(rank, order[rank][place_[rank]])) break;
          any = true;
        }
      }
    }
    if (left > 0) return std::nullopt;
    OrderCost cost;
    for (size_t rank = 0; rank < order.size(); ++rank) {
      cost.makespan = std::max(cost.makespan, now_[rank]);
      cost.idle += now_[rank] - first_[rank] - busy_[rank];
    }
    return cost;
  }

 private:
  size_t CellOf(uint32_t stage, uint32_t batch) const {
    return size_t{stage} * shape_.micro_batches + batch;
  }

  bool Run(uint32_t rank, const Action& action) {
    const uint32_t stage = shape_.StageOf(rank, action.chunk);
    const size_t cell = CellOf(stage, action.micro_batch);
    double ready = 0;
    if (action.kind == Kind::kForward && stage > 0) {
      const double before = forward_end_[CellOf(stage - 1, action.micro_batch)];
      if (before == kUnknown) return false;
      ready = before + delays_[stage - 1];
    }
    if (action.kind == Kind::kBackward && stage + 1 < shape_.stages()) {
      const double after = backward_end_[CellOf(stage + 1, action.micro_batch)];
      if (after == kUnknown) return false;
      ready = after + delays_[stage];
    }
    const double begin = std::max(now_[rank], ready);
    const double takes = durations_[static_cast<size_t>(action.kind) * shape_.stages() + stage];
    if (place_[rank] == 0) first_[rank] = begin;
    busy_[rank] += takes;
    now_[rank] = begin + takes;
    if (action.kind == Kind::kForward) forward_end_[cell] = now_[rank];
    if (action.kind == Kind::kBackward) backward_end_[cell] = now_[rank];
    return true;
  }

  const Shape& shape_;
  std::vector<double> durations_;  // by kind and stage
  std::vector<double> delays_;     // from a stage to the next one, and back
  std::vector<double> forward_end_;
  std::vector<double> backward_end_;
  std::vector<size_t> place_;  // by rank, as all below
  std::vector<double> now_;
  std::vector<double> first_;
  std::vector<double> busy_;
};

// Whether `action` may not come before `other` on their rank.
bool Needs(const Action& action, const Action& other) {
  if (action.micro_batch != other.micro_batch || action.chunk != other.chunk) return false;
  return other.kind < action.kind;
}

uint32_t MostHeld(const std::vector<Action>& actions) {
  uint32_t held = 0;
  uint32_t most = 0;
  for (const Action& action : actions) {
    if (action.kind == Kind::kForward) most = std::max(most, ++held);
    if (action.kind == Kind::kWeights) --held;
  }
  return most;
}

}  // namespace

OrderCost Improve(const Shape& shape, const Durations& durations, uint32_t most_activations,
                  uint64_t moves, uint64_t seed, Order& order) {
  OrderTimes times(shape, durations);
  const std::optional<OrderCost> begin = times.CostOf(order);
  CHECK(begin.has_value());
  OrderCost cost = *begin;
  std::mt19937_64 random(seed);
  const size_t farthest = 2 * size_t{shape.ranks};
  for (uint64_t i = 0; i < moves; ++i) {
    std::vector<Action>& actions = order[random() % shape.ranks];
    const size_t from = 1 + random() % (actions.size() - 1);
    const size_t to = from - 1 - random() % std::min(from, farthest);
    const auto first = actions.begin() + static_cast<ptrdiff_t>(to);
    const auto last = actions.begin() + static_cast<ptrdiff_t>(from);
    if (std::any_of(first, last, [&](const Action& each) { return Needs(*last, each); })) continue;
    std::rotate(first, last, last + 1);
    std::optional<OrderCost> moved;
    if (MostHeld(actions) <= most_activations) moved = times.CostOf(order);
    if (moved.has_value() && *moved <= cost) {
      cost = *moved;
    } else {
      std::rotate(first, first + 1, last + 1);
    }
  }
  return cost;
}

}  // namespace longhaul::schedule
