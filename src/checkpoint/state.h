// The training state of a rank: named, typed, dense tensors in a fixed order.
//
// A plan describes what one rank holds; the bytes are elsewhere (registered memory, an arena, a
// file). Tensors are row-major and little-endian; dtypes have safetensors' names. A tensor is
// whole, or a box of a global one whose rest other ranks hold. Two states can replace each other
// exactly when their plans are equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::checkpoint {

constexpr size_t kMaxTensors = 1u << 20;
constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxDims = 8;
constexpr uint64_t kMaxStateBytes = uint64_t{1} << 46;  // 64 TiB: sums of sizes never overflow

// Returns the size of an element; nothing for an unknown dtype.
std::optional<uint64_t> DtypeBytes(std::string_view dtype);

// The box of a rank's tensor in a global one, at `offset` of `shape`.
struct TensorPart {
  std::string of;  // the global tensor's name
  std::vector<int64_t> shape;
  std::vector<int64_t> offset;

  friend bool operator==(const TensorPart&, const TensorPart&) = default;
};

struct TensorInfo {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::optional<TensorPart> part = {};  // nothing: whole, global under its own name

  const std::string& global_name() const { return part ? part->of : name; }
  const std::vector<int64_t>& global_shape() const { return part ? part->shape : shape; }

  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

class StatePlan {
 public:
  StatePlan() = default;  // no tensors

  // Refuses names that are empty, too long, not UTF-8, used twice or "__metadata__"; unknown
  // dtypes; negative or too many dimensions; parts that don't lie in their global tensor; parts of
  // one global tensor that disagree on its shape or dtype; more than the limits above.
  static Result<StatePlan> Create(std::vector<TensorInfo> tensors);

  size_t size() const { return tensors_.size(); }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // Requires tensor < size().
  uint64_t bytes(size_t tensor) const { return bytes_[tensor]; }
  uint64_t total_bytes() const { return total_bytes_; }

  // Encode returns the plan as bytes (docs/arena.md). Decode accepts only what Encode writes.
  std::string Encode() const;
  static Result<StatePlan> Decode(std::string_view encoded);

  // Returns the first difference to `other`, for an error message; nothing when they are equal.
  std::optional<std::string> FirstDifference(const StatePlan& other) const;

  friend bool operator==(const StatePlan&, const StatePlan&) = default;

 private:
  std::vector<TensorInfo> tensors_;
  std::vector<uint64_t> bytes_;
  uint64_t total_bytes_ = 0;
};

// A state that was read and verified: its plan and its own copy of the bytes.
class LoadedState {
 public:
  // Requires an offset for each tensor of the plan, with its bytes within `storage`.
  LoadedState(StatePlan plan, std::vector<std::byte> storage, std::vector<uint64_t> offsets);

  const StatePlan& plan() const { return plan_; }
  // Requires index < plan().size().
  std::span<const std::byte> tensor(size_t index) const {
    return std::span(storage_).subspan(offsets_[index], plan_.bytes(index));
  }
  // Returns all tensors, in the plan's order; valid as long as this state.
  std::vector<std::span<const std::byte>> Tensors() const;

 private:
  StatePlan plan_;
  std::vector<std::byte> storage_;
  std::vector<uint64_t> offsets_;
};

}  // namespace longhaul::checkpoint
