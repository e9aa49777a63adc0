#include "schedule/generate.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"

namespace longhaul::schedule {
namespace {

// What is sent after a computation; nothing: the neighbour is on this rank, or there is none.
std::optional<Action> SendAfter(const Shape& shape, uint32_t rank, const Action& action) {
  if (action.kind == Kind::kWeights) return std::nullopt;
  const bool forward = action.kind == Kind::kForward;
  if (!HasRemoteNeighbour(shape, shape.StageOf(rank, action.chunk), forward)) return std::nullopt;
  return Action{forward ? Kind::kSendForward : Kind::kSendBackward, action.micro_batch,
                action.chunk};
}

// What a computation needs from another rank.
std::optional<Action> ReceiveBefore(const Shape& shape, uint32_t rank, const Action& action) {
  if (action.kind == Kind::kWeights) return std::nullopt;
  const bool forward = action.kind == Kind::kForward;
  if (!HasRemoteNeighbour(shape, shape.StageOf(rank, action.chunk), !forward)) return std::nullopt;
  return Action{forward ? Kind::kReceiveForward : Kind::kReceiveBackward, action.micro_batch,
                action.chunk};
}

// The receiver's action for a transfer.
Action ReceiverOf(const Shape& shape, const Transfer& transfer) {
  const uint32_t stage = transfer.forward ? transfer.stage + 1 : transfer.stage - 1;
  return {transfer.forward ? Kind::kReceiveForward : Kind::kReceiveBackward, transfer.micro_batch,
          shape.ChunkOf(stage)};
}

// Warm-up forwards, then a forward and a backward in turn, then the other backwards. `forward` and
// `backward` return the i-th of each.
template <typename Forward, typename Backward>
std::vector<Action> InTurn(uint32_t count, uint32_t ahead, Forward forward, Backward backward) {
  std::vector<Action> order;
  uint32_t forwards = 0;
  for (; forwards < std::min(ahead, count); ++forwards) order.push_back(forward(forwards));
  for (uint32_t i = 0; i < count; ++i) {
    if (forwards < count) order.push_back(forward(forwards++));
    const Action action = backward(i);
    order.push_back(action);
    order.push_back({Kind::kWeights, action.micro_batch, action.chunk});
  }
  return order;
}

}  // namespace

Schedule WithTransfers(const Shape& shape, const Order& order) {
  CHECK(order.size() == shape.ranks);
  std::map<std::pair<uint32_t, uint32_t>, std::deque<Transfer>> links;
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    for (const Action& action : order[rank]) {
      const std::optional<Action> send = SendAfter(shape, rank, action);
      if (!send.has_value()) continue;
      const Transfer transfer = TransferOf(shape, rank, *send);
      links[{transfer.from, transfer.to}].push_back(transfer);
    }
  }
  Schedule schedule{shape, std::vector<std::vector<Group>>(shape.ranks)};
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    Group transfers;  // sent after the computation before, and received for this one
    for (const Action& action : order[rank]) {
      if (const auto receive = ReceiveBefore(shape, rank, action)) {
        const Transfer needed = TransferOf(shape, rank, *receive);
        std::deque<Transfer>& link = links[{needed.from, needed.to}];
        // Also those that were sent before it, unless they have come already.
        const auto place = std::find(link.begin(), link.end(), needed);
        const size_t count = place == link.end() ? 0 : place - link.begin() + 1;
        for (size_t i = 0; i < count; ++i) {
          transfers.push_back(ReceiverOf(shape, link.front()));
          link.pop_front();
        }
      }
      if (!transfers.empty()) schedule.ranks[rank].push_back(std::exchange(transfers, {}));
      schedule.ranks[rank].push_back({action});
      if (const auto send = SendAfter(shape, rank, action)) transfers.push_back(*send);
    }
    if (!transfers.empty()) schedule.ranks[rank].push_back(transfers);
  }
  return schedule;
}

Schedule OneForwardOneBackward(uint32_t ranks, uint32_t micro_batches) {
  const Shape shape{ranks, micro_batches, 1, Placement::kLoop};
  Order order;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    order.push_back(InTurn(
        micro_batches, ranks - 1 - rank,
        [](uint32_t i) {
          return Action{Kind::kForward, i, 0};
        },
        [](uint32_t i) {
          return Action{Kind::kBackward, i, 0};
        }));
  }
  return WithTransfers(shape, order);
}

Result<Schedule> Interleaved(uint32_t ranks, uint32_t micro_batches, uint32_t chunks) {
  if (micro_batches % ranks != 0) {
    return InvalidArgument("an interleaved schedule of " + std::to_string(ranks) +
                           " ranks cannot have " + std::to_string(micro_batches) +
                           " micro-batches: choose a multiple of the ranks");
  }
  if (chunks == 1) return OneForwardOneBackward(ranks, micro_batches);
  const Shape shape{ranks, micro_batches, chunks, Placement::kLoop};
  // As many micro-batches as there are ranks pass a chunk, then the next chunk.
  const auto at = [&](Kind kind, uint32_t i) {
    const uint32_t round = ranks * chunks;
    const uint32_t chunk = i % round / ranks;
    return Action{kind, i / round * ranks + i % ranks,
                  kind == Kind::kForward ? chunk : chunks - 1 - chunk};
  };
  Order order;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    order.push_back(InTurn(
        micro_batches * chunks, 2 * (ranks - 1 - rank) + (chunks - 1) * ranks,
        [&](uint32_t i) { return at(Kind::kForward, i); },
        [&](uint32_t i) { return at(Kind::kBackward, i); }));
  }
  return WithTransfers(shape, order);
}

}  // namespace longhaul::schedule
