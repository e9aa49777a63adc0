#include "trainer/parallel/starting_weights.h"

#include <utility>
#include <vector>

#include "checkpoint/reshard/load_state.h"
#include "checkpoint/state.h"
#include "objects/files.h"
#include "trainer/parallel/state_boxes.h"

namespace longhaul::trainer {

Status LoadStartingWeights(const StartingWeights& from, const ParameterTable& table, uint32_t rank,
                           std::span<float> weights) {
  std::vector<checkpoint::TensorInfo> infos;
  std::vector<std::span<std::byte>> memory;
  for (const StateTensor& tensor : WeightBoxes(table, weights)) {
    infos.push_back({tensor.name, "F32", tensor.shape});
    if (tensor.part.has_value()) {
      infos.back().part = {tensor.part->of, tensor.part->shape, tensor.part->offset};
    }
    memory.push_back(std::as_writable_bytes(tensor.values));
  }
  ASSIGN_OR_RETURN(const auto plan, checkpoint::StatePlan::Create(std::move(infos)));
  ASSIGN_OR_RETURN(const auto place, objects::Place::Open(from.folder));
  return checkpoint::LoadState(place.files(), {place.path(), from.step, from.attempt, rank}, plan,
                               memory)
      .status();
}

}  // namespace longhaul::trainer
