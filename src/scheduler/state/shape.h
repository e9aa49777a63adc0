// What one task needs, and the table in which equal needs are one number.
//
// A task takes whole GPUs, or a fraction of one GPU (a share in thousandths and memory of the
// device: both must fit on the same GPU), beside cpu, memory and counted resources. Selectors and
// taints are already resolved to sets of device models and node classes. Feasibility, slots and
// scores are cached by ShapeId. Leaves out how many tasks there are and where they must lie.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "spec/cluster/topology.h"

namespace longhaul::scheduler {

inline constexpr int32_t kWholeGpu = 1'000;  // thousandths of one GPU
inline constexpr uint64_t kAnyModel = ~uint64_t{0};
inline constexpr uint32_t kMaxShapes = 65'536;

// A set of node classes (spec::Topology::classes).
struct ClassSet {
  std::array<uint64_t, spec::kMaxNodeClasses / 64> words{};

  static ClassSet All();
  bool contains(uint16_t node_class) const {
    return (words[node_class / 64] >> (node_class % 64) & 1) != 0;
  }
  void insert(uint16_t node_class) { words[node_class / 64] |= uint64_t{1} << (node_class % 64); }

  friend auto operator<=>(const ClassSet&, const ClassSet&) = default;
};

enum class ShapeId : uint32_t {};

struct Shape {
  uint8_t gpus = 0;            // whole GPUs, at most spec::kMaxDevices
  uint16_t share = 0;          // thousandths of one GPU, 1 to 999, if GPUs is 0; else 0
  int32_t gpu_memory_mib = 0;  // a fraction reserves it; of a whole GPU it is the least size
  int32_t cpu_milli = 0;
  int32_t memory_mib = 0;
  std::array<int32_t, spec::kMaxCountedResources> counted{};
  uint64_t models = kAnyModel;  // bit i: device model i may serve; no matter without devices
  ClassSet classes = ClassSet::All();

  bool needs_devices() const { return gpus > 0 || share > 0; }
  // Thousandths of GPUs that a task takes.
  int32_t gpu_milli() const { return gpus > 0 ? gpus * kWholeGpu : share; }

  friend auto operator<=>(const Shape&, const Shape&) = default;
};

// What a user asks for, by names.
struct TaskRequest {
  uint32_t gpus = 0;
  uint32_t share_milli = 0;  // of one GPU; excludes `gpus`
  int64_t gpu_memory_mib = 0;
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
  std::map<std::string, int64_t> counted;
  std::set<std::string> models;                 // empty: any
  std::map<std::string, std::string> selector;  // labels that the node must have
  std::set<std::string> tolerates;              // taints it bears
};

// Refuses both GPUs and a share, amounts out of range, and names that the cluster doesn't have.
// A request that no node class or no model allows is refused too.
Result<Shape> ResolveRequest(const TaskRequest& request, const spec::Topology& topology);

// "2 GPUs, 16 cpu, 64 GiB", "0.5 of a GPU with 20 GiB, 4 cpu": for messages. Of counted resources,
// which the topology names, "pods" is left out, of which each pod needs one.
std::string ToString(const Shape& shape);
std::string ToString(const Shape& shape, const spec::Topology& topology);

// Interned shapes. A value: a copy answers the same.
class ShapeTable {
 public:
  // The number of this shape, the same for equal shapes. Requires a shape whose fields are in range
  // and fewer than kMaxShapes distinct ones.
  ShapeId Intern(const Shape& shape);

  const Shape& operator[](ShapeId id) const { return shapes_[static_cast<uint32_t>(id)]; }
  uint32_t size() const { return static_cast<uint32_t>(shapes_.size()); }

 private:
  struct Hash {
    size_t operator()(const Shape& shape) const;
  };

  std::vector<Shape> shapes_;
  std::unordered_map<Shape, uint32_t, Hash> ids_;  // looked up only, never walked
};

}  // namespace longhaul::scheduler
