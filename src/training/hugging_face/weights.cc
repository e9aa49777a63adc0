#include "training/hugging_face/weights.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "checkpoint/formats/catalog_reader.h"
#include "checkpoint/formats/open_checkpoint.h"
#include "checkpoint/state.h"

namespace longhaul::training {
namespace {

using checkpoint::Box;
using checkpoint::Catalog;
using checkpoint::TensorInfo;

constexpr uint64_t kBatchBytes = 64 << 20;  // read before they are converted
constexpr uint64_t kLargestGap = 64 << 10;  // between columns of a transposed matrix
constexpr size_t kMostMistakes = 10;
constexpr std::string_view kWeights = "model.safetensors";

std::string ShapeText(std::span<const int64_t> shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return "[" + Join(sizes, ", ") + "]";
}

Result<Catalog> OpenCatalog(io::FileSystem& files, const std::string& path) {
  const std::string index = path + "/" + std::string(kWeights) + ".index.json";
  if (files.Size(index).ok()) return checkpoint::OpenSafetensorsIndex(files, index);
  const std::string single = path + "/" + std::string(kWeights);
  if (files.Size(single).ok()) return checkpoint::OpenSafetensorsFile(files, single);
  if (path.ends_with(".json")) return checkpoint::OpenSafetensorsIndex(files, path);
  if (path.ends_with(".safetensors")) return checkpoint::OpenSafetensorsFile(files, path);
  return NotFound(path + ": has no " + std::string(kWeights) + " and no " + std::string(kWeights) +
                  ".index.json: save the model with transformers' save_pretrained");
}

// A catalog of safetensors has one shard for each tensor, in the same order.
const std::string& FileOf(const Catalog& catalog, uint32_t tensor) {
  CHECK(catalog.shards[tensor].tensor == tensor);
  return catalog.files[catalog.shards[tensor].file].path;
}

float FromHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = half >> 10 & 31;
  const uint32_t fraction = half & 0x3FFu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wider = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wider << 23 | fraction << 13);
}

std::vector<float> Decode(std::string_view dtype, std::span<const std::byte> bytes) {
  if (dtype == "F32") {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<float> values(bytes.size() / sizeof(uint16_t));
  const bool half = dtype == "F16";
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * sizeof(bits), sizeof(bits));
    values[i] = half ? FromHalf(bits) : std::bit_cast<float>(uint32_t{bits} << 16);
  }
  return values;
}

// A part of a stored tensor that is wanted, and its place in a share.
struct Request {
  checkpoint::WantedShard stored;
  size_t parameter = 0;
  int64_t begin = 0;  // of its elements in the share
  int64_t rows = 1;   // of the share's part, which is row-major
  int64_t columns = 1;
  bool transposed = false;
  bool twin = false;  // compared with what the share already has
};

// The part of `piece` that a rank's share of `parameter` has. Requires an expert of the share.
Request RequestOf(const Parameter& parameter, const Piece& piece) {
  const size_t first = piece.expert.has_value() ? 1 : 0;
  std::vector<int64_t> offset;
  std::vector<int64_t> extent;
  for (size_t i = first; i < parameter.whole.size(); ++i) {
    const bool cut = parameter.tensor_dimension == static_cast<int>(i);
    offset.push_back(cut ? parameter.tensor_cut.begin : 0);
    extent.push_back(parameter.shape[i]);
  }
  offset[0] += piece.row;
  Request request;
  request.transposed = piece.transposed;
  request.rows = extent[0];
  if (extent.size() > 1) request.columns = extent[1];
  if (piece.expert.has_value()) {
    request.begin = (*piece.expert - parameter.expert_cut.begin) * request.rows * request.columns;
  }
  if (piece.transposed) {
    std::swap(offset[0], offset[1]);
    std::swap(extent[0], extent[1]);
  }
  request.stored.box = Box::At(offset, extent);
  return request;
}

template <typename T>
bool SameBits(std::span<const float> values, std::span<const T> other) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto back = static_cast<float>(other[i]);
    if (std::bit_cast<uint32_t>(values[i]) != std::bit_cast<uint32_t>(back)) return false;
  }
  return true;
}

template <typename T>
void Fill(const Request& request, std::span<const float> values, std::span<T> share) {
  T* to = share.data() + request.begin;
  if (!request.transposed) {
    std::copy(values.begin(), values.end(), to);
    return;
  }
  for (int64_t row = 0; row < request.rows; ++row) {
    for (int64_t column = 0; column < request.columns; ++column) {
      *to++ = values[static_cast<size_t>(column * request.rows + row)];
    }
  }
}

// Reads the shares of parameters in batches, which are converted before the next one is read.
template <typename T>
class ShareReader {
 public:
  ShareReader(io::FileSystem& files, const Catalog& catalog, const TensorIndex& tensors,
              const HuggingFaceConfig& config)
      : catalog_(catalog),
        tensors_(tensors),
        config_(config),
        element_bytes_(catalog.ElementBytes()),
        reader_(files, catalog) {}

  Status Read(std::span<const Parameter> parameters, std::span<const std::span<T>> to) {
    CHECK(parameters.size() == to.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      CHECK(to[i].size() == static_cast<size_t>(parameters[i].count()));
      if (!to[i].empty()) RETURN_IF_ERROR(Add(parameters[i], i, to));
    }
    return Run(to);
  }

 private:
  Status Add(const Parameter& parameter, size_t index, std::span<const std::span<T>> to) {
    const Cut& experts = parameter.expert_cut;
    for (const Piece& piece : PiecesOf(config_.model, config_.family, parameter)) {
      if (piece.expert && (*piece.expert < experts.begin || *piece.expert >= experts.end)) continue;
      Request request = RequestOf(parameter, piece);
      request.parameter = index;
      Add(request, piece.tensor);
      request.twin = true;
      if (parameter.tied && tensors_.contains(kOutputTensor)) Add(request, kOutputTensor);
      if (bytes_ >= kBatchBytes) RETURN_IF_ERROR(Run(to));
    }
    return {};
  }

  void Add(Request request, std::string_view name) {
    request.stored.tensor = tensors_.find(name)->second;
    bytes_ += Bytes(request);
    batch_.push_back(request);
  }

  Status Run(std::span<const std::span<T>> to) {
    std::vector<std::vector<std::byte>> buffers;
    std::vector<checkpoint::WantedShard> wanted;
    for (const Request& request : batch_) {
      wanted.push_back(request.stored);
      buffers.emplace_back(Bytes(request));
    }
    const std::vector<std::span<std::byte>> spans(buffers.begin(), buffers.end());
    RETURN_IF_ERROR(reader_.Read(wanted, spans, {.verify = true, .largest_gap = kLargestGap}));
    for (size_t i = 0; i < batch_.size(); ++i) {
      const Request& request = batch_[i];
      const TensorInfo& tensor = catalog_.tensors[request.stored.tensor];
      const std::vector<float> values = Decode(tensor.dtype, buffers[i]);
      const std::span<T> share = to[request.parameter];
      if (!request.twin) {
        Fill<T>(request, values, share);
      } else if (!SameBits<T>(values, share)) {
        return InvalidArgument(FileOf(catalog_, request.stored.tensor) + ": tensor '" +
                               Printable(tensor.name) +
                               "' differs from the embedding, but config.json ties them: set "
                               "tie_word_embeddings to false, or remove the tensor");
      }
    }
    batch_.clear();
    bytes_ = 0;
    return {};
  }

  uint64_t Bytes(const Request& request) const {
    return static_cast<uint64_t>(request.stored.box.elements()) *
           element_bytes_[request.stored.tensor];
  }

  const Catalog& catalog_;
  const TensorIndex& tensors_;
  const HuggingFaceConfig& config_;
  const std::vector<uint64_t> element_bytes_;
  checkpoint::CatalogReader reader_;
  std::vector<Request> batch_;
  uint64_t bytes_ = 0;
};

// Collects lines, and keeps the first few.
class Lines {
 public:
  void Add(std::string line) {
    ++count_;
    if (lines_.size() < kMostMistakes) lines_.push_back(std::move(line));
  }
  Status Finish() && {
    if (count_ == 0) return {};
    if (count_ > lines_.size()) {
      lines_.push_back("and " + std::to_string(count_ - lines_.size()) + " more");
    }
    return InvalidArgument(Join(lines_, "\n"));
  }

 private:
  size_t count_ = 0;
  std::vector<std::string> lines_;
};

bool IsFloat(std::string_view dtype) { return dtype == "F32" || dtype == "BF16" || dtype == "F16"; }

// The tensors of the family's checkpoint, with their shapes.
std::map<std::string, std::vector<int64_t>> TensorsOf(const HuggingFaceConfig& config) {
  std::map<std::string, std::vector<int64_t>> tensors;
  for (const Parameter& parameter : AllParameters(config.model, {}, {})) {
    for (const Piece& piece : PiecesOf(config.model, config.family, parameter)) {
      const auto [at, added] = tensors.try_emplace(piece.tensor, piece.shape);
      CHECK(added || at->second == piece.shape);
    }
  }
  return tensors;
}

}  // namespace

Result<StoredWeights> StoredWeights::Open(io::FileSystem& files, const std::string& path,
                                          const HuggingFaceConfig& config) {
  // Before a list of the expected tensors is made.
  const spec::Model& shape = config.model.shape;
  const uint64_t experts = shape.experts.has_value() ? shape.experts->count : 0;
  if (shape.layers * experts > checkpoint::kMaxTensors) {
    return InvalidArgument(path + ": config.json describes " + std::to_string(shape.layers) +
                           " layers with " + std::to_string(experts) +
                           " experts each, more than the " +
                           std::to_string(checkpoint::kMaxTensors) +
                           " tensors that files can have: give the config.json that was saved "
                           "with the weights");
  }
  StoredWeights weights(files, config);
  ASSIGN_OR_RETURN(weights.catalog_, OpenCatalog(files, path));
  RETURN_IF_ERROR(weights.Check());
  return weights;
}

Status StoredWeights::Check() {
  auto expected = TensorsOf(config_);
  const bool tied = config_.model.shape.tied_embeddings;
  if (tied) {
    const std::vector<Parameter> embedding = ParametersOf(config_.model, {}, {}, kEmbedding);
    expected.emplace(kOutputTensor, embedding.front().whole);
  }
  Lines mistakes;
  for (uint32_t i = 0; i < catalog_.tensors.size(); ++i) {
    const TensorInfo& tensor = catalog_.tensors[i];
    if (IsConstant(config_.family, tensor.name)) continue;
    const std::string where = FileOf(catalog_, i) + ": tensor '" + Printable(tensor.name) + "' ";
    const std::string name = CanonicalName(config_.family, tensor.name);
    const auto found = expected.find(name);
    if (found == expected.end()) {
      mistakes.Add(where + "of shape " + ShapeText(tensor.shape) +
                   " is not part of the model that config.json describes: give the config.json "
                   "that was saved with the weights, or remove the tensor");
    } else if (found->second != tensor.shape) {
      mistakes.Add(where + "has the shape " + ShapeText(tensor.shape) + ", config.json needs " +
                   ShapeText(found->second) +
                   ": give the config.json that was saved with the weights");
    } else if (!IsFloat(tensor.dtype)) {
      mistakes.Add(where + "has the type " + tensor.dtype +
                   ", expected F32, BF16 or F16: convert it with torch");
    } else if (!tensors_.emplace(name, i).second) {
      mistakes.Add(where + "is there twice, with and without 'transformer.': remove one");
    }
  }
  for (const auto& entry : expected) {
    const std::string& name = entry.first;
    if (tensors_.contains(name) || (tied && name == kOutputTensor)) continue;
    const bool named = std::any_of(
        catalog_.tensors.begin(), catalog_.tensors.end(),
        [&](const TensorInfo& one) { return CanonicalName(config_.family, one.name) == name; });
    if (named) continue;  // with a mistake of its own
    mistakes.Add(catalog_.path + ": tensor '" + name + "' of shape " + ShapeText(entry.second) +
                 " is missing: give all files of the model, and the config.json that was saved "
                 "with them");
  }
  return std::move(mistakes).Finish();
}

Status StoredWeights::Read(std::span<const Parameter> parameters,
                           std::span<const std::span<float>> to) const {
  return ShareReader<float>(*files_, catalog_, tensors_, config_).Read(parameters, to);
}

Status StoredWeights::Read(std::span<const Parameter> parameters,
                           std::span<const std::span<double>> to) const {
  return ShareReader<double>(*files_, catalog_, tensors_, config_).Read(parameters, to);
}

}  // namespace longhaul::training
