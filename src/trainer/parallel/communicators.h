// The groups that a rank of a mesh belongs to, one for each dimension.
#pragma once

#include <memory>

#include "base/status.h"
#include "trainer/parallel/group.h"
#include "trainer/parallel/mesh.h"

namespace longhaul::trainer {

class Communicators {
 public:
  // All ranks of the world call it. `world` outlives this object. Where a dimension is the whole
  // world, or one rank, no group is made besides the world's.
  static Result<std::unique_ptr<Communicators>> Create(Group& world, const Mesh& mesh);
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  const Mesh& mesh() const { return mesh_; }
  Group& world() { return world_; }
  Group& tensor() { return *tensor_; }      // the parts of this stage of this replica
  Group& data() { return *data_; }          // the ranks that hold the same parameters
  Group& pipeline() { return *pipeline_; }  // by ascending stage
  Group& replica() { return *replica_; }    // one copy of the model

  // Null: no observer.
  void Watch(MessageObserver* observer);

 private:
  Communicators(Group& world, const Mesh& mesh) : mesh_(mesh), world_(world) {}
  Status Find(const char* name, const std::vector<int>& ranks, Group*& found);

  Mesh mesh_;
  Group& world_;
  Group* tensor_ = nullptr;
  Group* data_ = nullptr;
  Group* pipeline_ = nullptr;
  Group* replica_ = nullptr;
  std::vector<std::unique_ptr<Group>> owned_;
};

}  // namespace longhaul::trainer
