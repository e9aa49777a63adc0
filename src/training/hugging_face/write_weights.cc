#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/check.h"
#include "checkpoint/formats/write_checkpoint.h"
#include "training/hugging_face/weights.h"

namespace longhaul::training {
namespace {

// A catalog whose files are in memory, one for each tensor.
class MemoryCatalog {
 public:
  MemoryCatalog() {
    catalog_.format = checkpoint::Format::kSafetensors;
    catalog_.metadata["format"] = "pt";
  }

  void Add(const Piece& piece, std::span<const float> values) {
    const bool whole = !piece.transposed && Elements(piece) == values.size();
    if (whole) {
      AddTensor(piece, values, nullptr);
      return;
    }
    auto& owned = fused_[piece.tensor];
    if (owned == nullptr) {
      owned = std::make_shared<std::vector<float>>(Elements(piece));
      AddTensor(piece, *owned, owned);
    }
    Fill(piece, values, *owned);
  }

  const checkpoint::Catalog& catalog() const { return catalog_; }

 private:
  static size_t Elements(const Piece& piece) {
    return static_cast<size_t>(checkpoint::Box::Whole(piece.shape).elements());
  }

  static void Fill(const Piece& piece, std::span<const float> values, std::span<float> to) {
    const auto first = static_cast<size_t>(piece.row);
    if (!piece.transposed) {
      const size_t width = piece.shape.size() > 1 ? static_cast<size_t>(piece.shape[1]) : 1;
      std::copy(values.begin(), values.end(), to.begin() + static_cast<ptrdiff_t>(first * width));
      return;
    }
    const auto inputs = static_cast<size_t>(piece.shape[0]);
    const auto stride = static_cast<size_t>(piece.shape[1]);
    const size_t rows = values.size() / inputs;
    for (size_t row = 0; row < rows; ++row) {
      for (size_t input = 0; input < inputs; ++input) {
        to[input * stride + first + row] = values[row * inputs + input];
      }
    }
  }

  void AddTensor(const Piece& piece, std::span<const float> values,
                 std::shared_ptr<const void> keeper) {
    const auto index = static_cast<uint32_t>(catalog_.tensors.size());
    catalog_.tensors.push_back({.name = piece.tensor, .dtype = "F32", .shape = piece.shape});
    catalog_.shards.push_back({index, checkpoint::Box::Whole(piece.shape), index, 0});
    checkpoint::CatalogFile& file = catalog_.files.emplace_back();
    file.path = piece.tensor;
    file.bytes = values.size_bytes();
    file.in_memory = true;
    file.memory = std::as_bytes(values);
    file.keeper = std::move(keeper);
  }

  checkpoint::Catalog catalog_;
  std::map<std::string, std::shared_ptr<std::vector<float>>> fused_;
};

}  // namespace

Status WriteWeights(io::FileSystem& files, const std::string& folder,
                    const HuggingFaceConfig& config,
                    std::span<const std::span<const float>> values) {
  const std::vector<Parameter> parameters = AllParameters(config.model, {}, {});
  CHECK(parameters.size() == values.size());
  MemoryCatalog memory;
  for (size_t i = 0; i < parameters.size(); ++i) {
    CHECK(values[i].size() == static_cast<size_t>(parameters[i].count()));
    const std::vector<Piece> pieces = PiecesOf(config.model, config.family, parameters[i]);
    const size_t each = values[i].size() / pieces.size();
    for (size_t k = 0; k < pieces.size(); ++k) {
      memory.Add(pieces[k], values[i].subspan(k * each, each));
    }
  }
  RETURN_IF_ERROR(CheckCatalog(memory.catalog()));
  RETURN_IF_ERROR(files.MakeDirectories(folder));
  const checkpoint::WriteOptions options;  // one file of safetensors
  RETURN_IF_ERROR(WriteCheckpoint(files, memory.catalog(), folder + "/model.safetensors", options));
  return io::WriteTextAtomically(files, folder + "/config.json", config.text);
}

}  // namespace longhaul::training
