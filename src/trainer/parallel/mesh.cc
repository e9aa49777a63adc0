#include "trainer/parallel/mesh.h"

#include "base/check.h"

namespace longhaul::trainer {

Result<Mesh> Mesh::Create(const MeshSizes& sizes, uint32_t world, uint32_t rank) {
  CHECK(rank < world);
  MeshSizes whole = sizes;
  const uint64_t copy = uint64_t{sizes.tensor} * sizes.pipeline;  // ranks of one replica
  if (whole.data == 0 && copy > 0 && world % copy == 0) {
    whole.data = static_cast<uint32_t>(world / copy);
  }
  if (copy * whole.data != world || copy == 0) {
    return InvalidArgument("layout " + std::to_string(sizes.data) + " x " +
                           std::to_string(sizes.tensor) + " x " + std::to_string(sizes.pipeline) +
                           " (data x tensor x pipeline) does not fit the " + std::to_string(world) +
                           " ranks");
  }
  return Mesh(whole, rank);
}

Mesh::Mesh(const MeshSizes& sizes, uint32_t rank) : sizes_(sizes) {
  part_.tensor = sizes.tensor;
  part_.part = rank % sizes.tensor;
  part_.pipeline = sizes.pipeline;
  part_.stage = rank / (sizes.tensor * sizes.data);
  replica_ = rank / sizes.tensor % sizes.data;
}

// A flag that is set frees that coordinate; the others must be equal to this rank's. Ascending
// order gives all members of a group the same list, which its communicator needs.
std::vector<int> Mesh::Ranks(bool data, bool tensor, bool pipeline) const {
  std::vector<int> ranks;
  for (uint32_t rank = 0; rank < world(); ++rank) {
    const Mesh other(sizes_, rank);
    const bool wanted = (data || other.replica_ == replica_) &&
                        (tensor || other.part_.part == part_.part) &&
                        (pipeline || other.part_.stage == part_.stage);
    if (wanted) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace longhaul::trainer
