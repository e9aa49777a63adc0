#include "checkpoint/state.h"

#include <bit>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "base/utf8.h"

namespace longhaul::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little,
              "states are written as they lie in memory");

template <typename T>
void Put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Reads an encoded plan from its start; once something is missing, ok() stays false.
class Decoder {
 public:
  explicit Decoder(std::string_view rest) : rest_(rest) {}

  template <typename T>
  T Take() {
    T value{};
    const std::string_view bytes = TakeBytes(sizeof(T));
    if (ok_) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::string_view TakeBytes(size_t bytes) {
    ok_ = ok_ && bytes <= rest_.size();
    if (!ok_) return {};
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  bool ok() const { return ok_; }
  size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

Status CheckName(std::string_view name) {
  if (name.empty()) return InvalidArgument("a tensor has no name");
  const std::string what = "tensor name '" + Printable(name) + "' ";
  if (name.size() > kMaxNameBytes) return InvalidArgument(what + "is longer than 255 bytes");
  if (!IsUtf8(name)) return InvalidArgument(what + "is not UTF-8");
  if (name == "__metadata__") return InvalidArgument(what + "is reserved by the file format");
  return {};
}

// The tensor's size. Refuses what could overflow.
Result<uint64_t> CheckedBytes(const TensorInfo& tensor) {
  RETURN_IF_ERROR(CheckName(tensor.name));
  const std::string what = "tensor " + Printable(tensor.name) + ": ";
  const std::optional<uint64_t> element = DtypeBytes(tensor.dtype);
  if (!element) return InvalidArgument(what + "unknown dtype '" + Printable(tensor.dtype) + "'");
  if (tensor.shape.size() > kMaxDims) return InvalidArgument(what + "more than 8 dimensions");
  uint64_t bytes = *element;
  bool empty = false;
  for (const int64_t extent : tensor.shape) {
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

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::vector<std::string> extents;
  for (const int64_t extent : shape) extents.push_back(std::to_string(extent));
  return "[" + Join(extents, ", ") + "]";
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

Result<StatePlan> StatePlan::Create(std::vector<TensorInfo> tensors) {
  if (tensors.size() > kMaxTensors) {
    return InvalidArgument("a state has at most 1048576 tensors, not " +
                           std::to_string(tensors.size()));
  }
  StatePlan plan;
  std::unordered_set<std::string_view> names;
  for (const TensorInfo& tensor : tensors) {
    ASSIGN_OR_RETURN(const uint64_t bytes, CheckedBytes(tensor));
    if (!names.insert(tensor.name).second) {
      return InvalidArgument("two tensors are named " + Printable(tensor.name));
    }
    plan.bytes_.push_back(bytes);
    plan.total_bytes_ += bytes;
    if (plan.total_bytes_ > kMaxStateBytes) return InvalidArgument("state is larger than 64 TiB");
  }
  plan.tensors_ = std::move(tensors);
  return plan;
}

std::string StatePlan::Encode() const {
  std::string out;
  Put(out, static_cast<uint32_t>(tensors_.size()));
  for (const TensorInfo& tensor : tensors_) {
    Put(out, static_cast<uint8_t>(tensor.name.size()));
    out += tensor.name;
    Put(out, static_cast<uint8_t>(tensor.dtype.size()));
    out += tensor.dtype;
    Put(out, static_cast<uint8_t>(tensor.shape.size()));
    for (const int64_t extent : tensor.shape) Put(out, extent);
  }
  return out;
}

Result<StatePlan> StatePlan::Decode(std::string_view encoded) {
  const Status cut = InvalidArgument("the plan is cut short or has bytes left over");
  Decoder decoder(encoded);
  const uint32_t count = decoder.Take<uint32_t>();
  // A tensor takes four bytes at least: a wrong count can't make us allocate.
  if (!decoder.ok() || count > decoder.left() / 4) return cut;
  std::vector<TensorInfo> tensors(count);
  for (TensorInfo& tensor : tensors) {
    tensor.name = decoder.TakeBytes(decoder.Take<uint8_t>());
    tensor.dtype = decoder.TakeBytes(decoder.Take<uint8_t>());
    const size_t dims = decoder.Take<uint8_t>();
    if (!decoder.ok() || dims > kMaxDims) return cut;
    for (size_t i = 0; i < dims; ++i) tensor.shape.push_back(decoder.Take<int64_t>());
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
    return what + Printable(one.name) + " is " + ShapeText(one.shape) + " here and " +
           ShapeText(two.shape) + " there";
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
