#include "checkpoint/state.h"

#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "base/utf8.h"
#include "checkpoint/internal/byte_fields.h"

namespace longhaul::checkpoint {
namespace {

using internal::FieldReader;
using internal::PutField;

Status CheckName(std::string_view name) {
  if (name.empty()) return InvalidArgument("a tensor has no name");
  const std::string what = "tensor name '" + Printable(name) + "' ";
  if (name.size() > kMaxNameBytes) return InvalidArgument(what + "is longer than 255 bytes");
  if (!IsUtf8(name)) return InvalidArgument(what + "is not UTF-8");
  if (name == "__metadata__") return InvalidArgument(what + "is reserved by the file format");
  return {};
}

// The size of a shape. Refuses what could overflow; `what` begins the message.
Result<uint64_t> ShapeBytes(const std::string& what, const std::string& dtype,
                            const std::vector<int64_t>& shape) {
  const std::optional<uint64_t> element = DtypeBytes(dtype);
  if (!element) return InvalidArgument(what + "unknown dtype '" + Printable(dtype) + "'");
  if (shape.size() > kMaxDims) return InvalidArgument(what + "more than 8 dimensions");
  // `bytes` stays at or below kMaxStateBytes, so the division is exact enough to exclude an
  // overflow of the product. A later extent may be 0, so the size is decided at the end.
  uint64_t bytes = *element;
  bool empty = false;
  for (const int64_t extent : shape) {
    if (extent < 0) return InvalidArgument(what + "negative dimension " + std::to_string(extent));
    if (extent == 0) {
      empty = true;
    } else if (static_cast<uint64_t>(extent) > kMaxStateBytes / bytes) {
      return InvalidArgument(what + "larger than 64 TiB");
    } else {
      bytes *= static_cast<uint64_t>(extent);
    }
  }
  return empty ? 0 : bytes;
}

Status CheckPart(const std::string& what, const TensorInfo& tensor) {
  const TensorPart& part = *tensor.part;
  RETURN_IF_ERROR(CheckName(part.of));
  RETURN_IF_ERROR(ShapeBytes(what, tensor.dtype, part.shape).status());
  if (part.shape.size() != tensor.shape.size() || part.offset.size() != tensor.shape.size()) {
    return InvalidArgument(what + "its dimensions differ from those of " + Printable(part.of));
  }
  for (size_t i = 0; i < part.shape.size(); ++i) {
    // The second comparison makes the subtraction in the third one safe for extents from outside.
    if (part.offset[i] < 0 || part.offset[i] > part.shape[i] ||
        tensor.shape[i] > part.shape[i] - part.offset[i]) {
      return InvalidArgument(what + "it lies outside of " + Printable(part.of) + " in dimension " +
                             std::to_string(i));
    }
  }
  return {};
}

// The tensor's size.
Result<uint64_t> CheckedBytes(const TensorInfo& tensor) {
  RETURN_IF_ERROR(CheckName(tensor.name));
  const std::string what = "tensor " + Printable(tensor.name) + ": ";
  ASSIGN_OR_RETURN(const uint64_t bytes, ShapeBytes(what, tensor.dtype, tensor.shape));
  if (tensor.part) RETURN_IF_ERROR(CheckPart(what, tensor));
  return bytes;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::vector<std::string> extents;
  for (const int64_t extent : shape) extents.push_back(std::to_string(extent));
  return "[" + Join(extents, ", ") + "]";
}

std::string PartText(const TensorInfo& tensor) {
  if (!tensor.part) return "whole";
  return "the part at " + ShapeText(tensor.part->offset) + " of " + Printable(tensor.part->of) +
         " " + ShapeText(tensor.part->shape);
}

}  // namespace

std::optional<uint64_t> DtypeBytes(std::string_view dtype) {
  static constexpr struct {
    std::string_view name;
    uint64_t bytes;
  } kDtypes[] = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
      {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8},
  };
  for (const auto& known : kDtypes) {
    if (known.name == dtype) return known.bytes;
  }
  return std::nullopt;
}

// All names and sizes come from users or from files, so this is the only place that builds a plan.
// The maps hold views into `tensors`, which moves only at the end.
Result<StatePlan> StatePlan::Create(std::vector<TensorInfo> tensors) {
  if (tensors.size() > kMaxTensors) {
    return InvalidArgument("a state has at most 1048576 tensors, not " +
                           std::to_string(tensors.size()));
  }
  StatePlan plan;
  std::unordered_set<std::string_view> names;
  std::unordered_map<std::string_view, const TensorInfo*> globals;
  for (const TensorInfo& tensor : tensors) {
    ASSIGN_OR_RETURN(const uint64_t bytes, CheckedBytes(tensor));
    if (!names.insert(tensor.name).second) {
      return InvalidArgument("two tensors are named " + Printable(tensor.name));
    }
    const TensorInfo& first = *globals.emplace(tensor.global_name(), &tensor).first->second;
    if (first.global_shape() != tensor.global_shape() || first.dtype != tensor.dtype) {
      return InvalidArgument("tensors " + Printable(first.name) + " and " + Printable(tensor.name) +
                             " disagree on what " + Printable(tensor.global_name()) + " is");
    }
    plan.bytes_.push_back(bytes);
    plan.total_bytes_ += bytes;
    if (plan.total_bytes_ > kMaxStateBytes) return InvalidArgument("state is larger than 64 TiB");
  }
  plan.tensors_ = std::move(tensors);
  return plan;
}

// docs/arena.md gives the format. The encoding is canonical: equal plans have equal bytes, so that
// their hashes can be compared.
std::string StatePlan::Encode() const {
  std::string out;
  PutField(out, static_cast<uint32_t>(tensors_.size()));
  for (const TensorInfo& tensor : tensors_) {
    PutField(out, static_cast<uint8_t>(tensor.name.size()));
    out += tensor.name;
    PutField(out, static_cast<uint8_t>(tensor.dtype.size()));
    out += tensor.dtype;
    PutField(out, static_cast<uint8_t>(tensor.shape.size()));
    for (const int64_t extent : tensor.shape) PutField(out, extent);
    PutField(out, static_cast<uint8_t>(tensor.part.has_value()));
    if (!tensor.part) continue;
    PutField(out, static_cast<uint8_t>(tensor.part->of.size()));
    out += tensor.part->of;
    for (const int64_t extent : tensor.part->shape) PutField(out, extent);
    for (const int64_t offset : tensor.part->offset) PutField(out, offset);
  }
  return out;
}

Result<StatePlan> StatePlan::Decode(std::string_view encoded) {
  const Status cut = InvalidArgument("the plan is cut short or has bytes left over");
  FieldReader decoder(encoded);
  const uint32_t count = decoder.Take<uint32_t>();
  // A tensor takes five bytes at least: a wrong count can't make us allocate.
  if (!decoder.ok() || count > decoder.left() / 5) return cut;
  std::vector<TensorInfo> tensors(count);
  for (TensorInfo& tensor : tensors) {
    tensor.name = decoder.TakeBytes(decoder.Take<uint8_t>());
    tensor.dtype = decoder.TakeBytes(decoder.Take<uint8_t>());
    // FieldReader returns zeros after a failure, so `ok` is checked before a count is used.
    const size_t dims = decoder.Take<uint8_t>();
    if (!decoder.ok() || dims > kMaxDims) return cut;
    for (size_t i = 0; i < dims; ++i) tensor.shape.push_back(decoder.Take<int64_t>());
    const uint8_t is_part = decoder.Take<uint8_t>();
    if (!decoder.ok() || is_part > 1) return cut;
    if (is_part == 0) continue;
    TensorPart& part = tensor.part.emplace();
    part.of = decoder.TakeBytes(decoder.Take<uint8_t>());
    for (size_t i = 0; i < dims; ++i) part.shape.push_back(decoder.Take<int64_t>());
    for (size_t i = 0; i < dims; ++i) part.offset.push_back(decoder.Take<int64_t>());
  }
  if (!decoder.ok() || decoder.left() != 0) return cut;
  return Create(std::move(tensors));
}

std::optional<std::string> StatePlan::FirstDifference(const StatePlan& other) const {
  for (size_t i = 0; i < size() && i < other.size(); ++i) {
    const TensorInfo& one = tensors_[i];
    const TensorInfo& two = other.tensors_[i];
    if (one == two) continue;
    const std::string what = "tensor " + std::to_string(i) + " ";
    if (one.name != two.name) {
      return what + "is " + Printable(one.name) + " here and " + Printable(two.name) + " there";
    }
    if (one.dtype != two.dtype) {
      return what + Printable(one.name) + " is " + one.dtype + " here and " + two.dtype + " there";
    }
    if (one.shape != two.shape) {
      return what + Printable(one.name) + " is " + ShapeText(one.shape) + " here and " +
             ShapeText(two.shape) + " there";
    }
    return what + Printable(one.name) + " is " + PartText(one) + " here and " + PartText(two) +
           " there";
  }
  if (size() == other.size()) return std::nullopt;
  return std::to_string(size()) + " tensors here and " + std::to_string(other.size()) + " there";
}

LoadedState::LoadedState(StatePlan plan, std::vector<std::byte> storage,
                         std::vector<uint64_t> offsets)
    : plan_(std::move(plan)), storage_(std::move(storage)), offsets_(std::move(offsets)) {
  CHECK(offsets_.size() == plan_.size());
  for (size_t i = 0; i < offsets_.size(); ++i) {
    CHECK(offsets_[i] <= storage_.size() && plan_.bytes(i) <= storage_.size() - offsets_[i]);
  }
}

std::vector<std::span<const std::byte>> LoadedState::Tensors() const {
  std::vector<std::span<const std::byte>> tensors;
  for (size_t i = 0; i < plan_.size(); ++i) tensors.push_back(tensor(i));
  return tensors;
}

}  // namespace longhaul::checkpoint
