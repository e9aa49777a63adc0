#include "schedule/search.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "schedule/generate.h"
#include "schedule/local_moves.h"

namespace longhaul::schedule {
namespace {

constexpr size_t kImproved = 4;                     // of the orders that are found, the best ones
constexpr uint64_t kEvaluatedActions = 40'000'000;  // bounds the time of the search
constexpr double kNever = std::numeric_limits<double>::infinity();

enum class Prefer { kBackward, kForward, kTheOther };  // than the last one of the rank

// How many micro-batches a rank may be ahead, and what it prefers.
struct Priorities {
  uint32_t base = 0;       // activations that the last rank may hold
  uint32_t each = 0;       // and as many more for each rank before it
  bool deep_first = true;  // forwards of later chunks before those of earlier ones
  Prefer prefer = Prefer::kBackward;
  uint32_t most_pending = 0;  // gradients of weights that wait on rank 0 before they come first
  uint32_t more_pending = 0;  // and so many more on each later rank
};

class ListScheduling {
 public:
  ListScheduling(const Shape& shape, const SearchOptions& options, const Priorities& priorities)
      : shape_(shape),
        options_(options),
        priorities_(priorities),
        ranks_(shape.ranks),
        forward_at_(shape.stages(), std::vector<double>(shape.micro_batches, kNever)),
        backward_at_(forward_at_) {
    forward_at_[0].assign(shape.micro_batches, 0);
    for (Rank& rank : ranks_) {
      rank.next_forward.resize(shape.chunks);
      rank.next_backward.resize(shape.chunks);
    }
  }

  // Nothing: the ranks wait for each other within the limit of memory.
  std::optional<Order> Run() {
    uint64_t left = uint64_t{3} * shape_.stages() * shape_.micro_batches;
    double now = 0;
    while (left > 0) {
      bool any = false;
      for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
        while (ranks_[rank].free_at <= now && Begin(rank, now)) {
          any = true;
          --left;
        }
      }
      if (any) continue;  // what has begun without a duration is ready for others now
      now = NextEvent(now);
      if (now == kNever) return std::nullopt;
    }
    Order order;
    for (Rank& rank : ranks_) order.push_back(std::move(rank.order));
    return order;
  }

 private:
  struct Rank {
    double free_at = 0;
    uint32_t held = 0;
    std::vector<uint32_t> next_forward;  // micro-batch, by chunk
    std::vector<uint32_t> next_backward;
    Kind last = Kind::kForward;   // of forward and backward
    std::vector<Action> pending;  // gradients of weights, the oldest first
    std::vector<Action> order;
  };

  uint32_t LimitOf(uint32_t rank) const {
    const uint32_t wanted = priorities_.base + priorities_.each * (shape_.ranks - 1 - rank);
    return std::clamp(wanted, shape_.chunks, options_.most_activations);
  }

  // Begins what the rank does next. Returns whether there is anything.
  bool Begin(uint32_t rank, double now) {
    const std::optional<Action> action = Choose(rank, now);
    if (!action.has_value()) return false;
    Rank& own = ranks_[rank];
    const uint32_t stage = shape_.StageOf(rank, action->chunk);
    const double end = now + options_.durations.Of(action->kind, stage);
    own.free_at = end;
    own.order.push_back(*action);
    if (action->kind != Kind::kWeights) own.last = action->kind;
    const uint32_t batch = action->micro_batch;
    switch (action->kind) {
      case Kind::kForward:
        ++own.held;
        ++own.next_forward[action->chunk];
        if (stage + 1 == shape_.stages()) {
          backward_at_[stage][batch] = end;
        } else {
          forward_at_[stage + 1][batch] = end + Delay(stage, true);
        }
        break;
      case Kind::kBackward:
        ++own.next_backward[action->chunk];
        own.pending.push_back({Kind::kWeights, batch, action->chunk});
        if (stage > 0) backward_at_[stage - 1][batch] = end + Delay(stage, false);
        break;
      default:
        --own.held;
        own.pending.erase(own.pending.begin());
    }
    return true;
  }

  double Delay(uint32_t stage, bool after) const {
    return HasRemoteNeighbour(shape_, stage, after) ? options_.durations.transfer : 0;
  }

  std::optional<Action> Choose(uint32_t rank, double now) const {
    const Rank& own = ranks_[rank];
    const uint64_t most = priorities_.most_pending + uint64_t{priorities_.more_pending} * rank;
    if (own.pending.size() >= most) return own.pending.front();
    std::optional<Action> action;
    const bool other = priorities_.prefer == Prefer::kTheOther && own.last == Kind::kBackward;
    if (other || priorities_.prefer == Prefer::kForward) action = ChooseForward(rank, now);
    if (!action.has_value()) action = ChooseBackward(rank, now);
    if (!action.has_value()) action = ChooseForward(rank, now);
    if (!action.has_value() && !own.pending.empty()) action = own.pending.front();
    return action;
  }

  std::optional<Action> ChooseBackward(uint32_t rank, double now) const {
    const Rank& own = ranks_[rank];
    for (uint32_t chunk = shape_.chunks; chunk-- > 0;) {
      const uint32_t batch = own.next_backward[chunk];
      if (batch >= own.next_forward[chunk]) continue;
      if (backward_at_[shape_.StageOf(rank, chunk)][batch] <= now) {
        return Action{Kind::kBackward, batch, chunk};
      }
    }
    return std::nullopt;
  }

  std::optional<Action> ChooseForward(uint32_t rank, double now) const {
    const Rank& own = ranks_[rank];
    for (uint32_t i = 0; i < shape_.chunks; ++i) {
      const uint32_t chunk = priorities_.deep_first ? shape_.chunks - 1 - i : i;
      const uint32_t batch = own.next_forward[chunk];
      // A place is left for each later chunk: else the first chunks of all fill the memory, and no
      // micro-batch comes to its end.
      const uint32_t reserved = shape_.chunks - 1 - chunk;
      if (batch >= shape_.micro_batches || own.held + reserved >= LimitOf(rank)) continue;
      if (forward_at_[shape_.StageOf(rank, chunk)][batch] <= now) {
        return Action{Kind::kForward, batch, chunk};
      }
    }
    return std::nullopt;
  }

  // When a rank becomes free, or something that is on its way arrives.
  double NextEvent(double now) const {
    double next = kNever;
    const auto take = [&](double at) {
      if (at > now) next = std::min(next, at);
    };
    for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
      const Rank& own = ranks_[rank];
      take(own.free_at);
      for (uint32_t chunk = 0; chunk < shape_.chunks; ++chunk) {
        const uint32_t stage = shape_.StageOf(rank, chunk);
        const uint32_t forward = own.next_forward[chunk];
        const uint32_t backward = own.next_backward[chunk];
        if (forward < shape_.micro_batches) take(forward_at_[stage][forward]);
        if (backward < shape_.micro_batches) take(backward_at_[stage][backward]);
      }
    }
    return next;
  }

  const Shape& shape_;
  const SearchOptions& options_;
  const Priorities priorities_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<double>> forward_at_;  // when the input is there, by stage and batch
  std::vector<std::vector<double>> backward_at_;
};

std::vector<Priorities> AllPriorities(const Shape& shape, const SearchOptions& options) {
  std::vector<Priorities> all;
  constexpr uint32_t kAny = 1u << 30;
  for (const auto& [pending, more] : std::initializer_list<std::pair<uint32_t, uint32_t>>{
           {1, 0}, {1, 1}, {1, 2}, {2, 0}, {shape.ranks, 0}, {2 * shape.ranks, 0}, {kAny, 0}}) {
    for (const Prefer prefer : {Prefer::kBackward, Prefer::kForward, Prefer::kTheOther}) {
      for (const bool deep_first : {true, false}) {
        if (!deep_first && shape.chunks == 1) continue;
        all.push_back({options.most_activations, 0, deep_first, prefer, pending, more});
        for (uint32_t base = 1; base <= 2 * shape.chunks + 1; ++base) {
          for (uint32_t each = 1; each <= 2 * shape.chunks; ++each) {
            all.push_back({base, each, deep_first, prefer, pending, more});
          }
        }
      }
    }
  }
  return all;
}

}  // namespace

Result<Schedule> Search(const Shape& shape, const SearchOptions& options) {
  if (options.most_activations < shape.chunks) {
    return InvalidArgument("a rank may hold " + std::to_string(options.most_activations) +
                           " activations, expected at least " + std::to_string(shape.chunks) +
                           ", one for each of its chunks");
  }
  std::vector<std::pair<OrderCost, Order>> found;
  for (const Priorities& priorities : AllPriorities(shape, options)) {
    std::optional<Order> order = ListScheduling(shape, options, priorities).Run();
    if (!order.has_value()) continue;
    const OrderCost cost =
        Improve(shape, options.durations, options.most_activations, 0, 0, *order);
    found.emplace_back(cost, *std::move(order));
  }
  if (found.empty()) {
    return InvalidArgument("no schedule is found with at most " +
                           std::to_string(options.most_activations) + " activations a rank");
  }
  std::ranges::stable_sort(found, {}, [](const auto& each) { return each.first; });
  const uint64_t actions = uint64_t{3} * shape.stages() * shape.micro_batches;
  const size_t tried = std::min(found.size(), kImproved);
  for (size_t i = 0; i < tried && found.front().first.idle > 0; ++i) {
    auto& [cost, order] = found[i];
    cost = Improve(shape, options.durations, options.most_activations,
                   kEvaluatedActions / tried / actions, i, order);
  }
  const auto best =
      std::ranges::min_element(found, {}, [](const auto& each) { return each.first; });
  return WithTransfers(shape, best->second);
}

}  // namespace longhaul::schedule
