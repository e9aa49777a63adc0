// The position of a rank in a layout of data x tensor x pipeline, and its neighbours.
//
// Tensor parts are adjacent, then replicas, then stages (Megatron-LM's order):
//   rank = (stage * data + replica) * tensor + part
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "trainer/model/parameters.h"

namespace longhaul::trainer {

struct MeshSizes {
  uint32_t data = 0;  // 0: the ranks divided by the other two
  uint32_t tensor = 1;
  uint32_t pipeline = 1;

  friend bool operator==(const MeshSizes&, const MeshSizes&) = default;
};

class Mesh {
 public:
  // kInvalidArgument when the sizes don't multiply to `world`. Requires rank < world.
  static Result<Mesh> Create(const MeshSizes& sizes, uint32_t world, uint32_t rank);

  uint32_t data() const { return sizes_.data; }
  uint32_t tensor() const { return sizes_.tensor; }
  uint32_t pipeline() const { return sizes_.pipeline; }
  uint32_t replica() const { return replica_; }
  const ModelPart& part() const { return part_; }
  uint32_t world() const { return sizes_.data * sizes_.tensor * sizes_.pipeline; }

  // The ranks that differ from this one only in the named coordinates, ascending.
  std::vector<int> TensorRanks() const { return Ranks(false, true, false); }
  std::vector<int> DataRanks() const { return Ranks(true, false, false); }
  std::vector<int> PipelineRanks() const { return Ranks(false, false, true); }
  // The ranks that together hold one copy of the model.
  std::vector<int> ReplicaRanks() const { return Ranks(false, true, true); }

 private:
  Mesh(const MeshSizes& sizes, uint32_t rank);
  std::vector<int> Ranks(bool data, bool tensor, bool pipeline) const;

  MeshSizes sizes_;
  uint32_t replica_ = 0;
  ModelPart part_;
};

}  // namespace longhaul::trainer
