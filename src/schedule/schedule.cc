#include "schedule/schedule.h"

#include "base/check.h"

namespace longhaul::schedule {

uint32_t Shape::StageOf(uint32_t rank, uint32_t chunk) const {
  if (placement == Placement::kV && chunk == 1) return 2 * ranks - 1 - rank;
  return chunk * ranks + rank;
}

uint32_t Shape::RankOf(uint32_t stage) const {
  if (placement == Placement::kV && stage >= ranks) return 2 * ranks - 1 - stage;
  return stage % ranks;
}

uint32_t Shape::ChunkOf(uint32_t stage) const { return stage / ranks; }

bool HasRemoteNeighbour(const Shape& shape, uint32_t stage, bool after) {
  if (after ? stage + 1 >= shape.stages() : stage == 0) return false;
  return shape.RankOf(after ? stage + 1 : stage - 1) != shape.RankOf(stage);
}

Transfer TransferOf(const Shape& shape, uint32_t rank, const Action& action) {
  CHECK(!action.Computes());
  const uint32_t stage = shape.StageOf(rank, action.chunk);
  switch (action.kind) {
    case Kind::kSendForward:
      return {rank, shape.RankOf(stage + 1), true, action.micro_batch, stage};
    case Kind::kReceiveForward:
      return {shape.RankOf(stage - 1), rank, true, action.micro_batch, stage - 1};
    case Kind::kSendBackward:
      return {rank, shape.RankOf(stage - 1), false, action.micro_batch, stage};
    default:
      return {shape.RankOf(stage + 1), rank, false, action.micro_batch, stage + 1};
  }
}

}  // namespace longhaul::schedule
