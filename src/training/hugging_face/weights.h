// Loads and saves weights in Hugging Face's format: safetensors with the names of a family.
//
// Loading reads whole parameters or only the share of a rank. All names, shapes and types are
// checked when the file is opened, also those of other ranks' shares, so that each rank refuses a
// file that any rank would refuse. Weights are read from F32, BF16 and F16, and written as F32.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/formats/catalog.h"
#include "io/files/file.h"
#include "training/hugging_face/read_config.h"
#include "training/hugging_face/tensors.h"
#include "training/parameters.h"

namespace longhaul::training {

// The indexes of a catalog's tensors by their canonical names (tensors.h).
using TensorIndex = std::map<std::string, uint32_t, std::less<>>;

class StoredWeights {
 public:
  // `path` is a folder with model.safetensors or model.safetensors.index.json, or one of these
  // files. Returns kNotFound when there is none, kDataLoss for a damaged file, and
  // kInvalidArgument, with one line for each tensor, for weights of another model. Requires that
  // `files` outlives this.
  static Result<StoredWeights> Open(io::FileSystem& files, const std::string& path,
                                    const HuggingFaceConfig& config);

  // Fills `to` with this rank's share of each parameter, row-major. Returns kInvalidArgument when
  // the file has an output matrix that differs from the embedding to which it is tied. Requires
  // parameters of the model, and a span of `count()` elements for each.
  Status Read(std::span<const Parameter> parameters, std::span<const std::span<float>> to) const;
  Status Read(std::span<const Parameter> parameters, std::span<const std::span<double>> to) const;

  const checkpoint::Catalog& catalog() const { return catalog_; }

 private:
  StoredWeights(io::FileSystem& files, const HuggingFaceConfig& config)
      : files_(&files), config_(config) {}
  Status Check();

  io::FileSystem* files_;
  HuggingFaceConfig config_;
  checkpoint::Catalog catalog_;
  TensorIndex tensors_;
};

// Writes config.json, as it was read, and model.safetensors into a folder, which is made if
// needed. Transformers loads it as the family's model with a language-model head. Returns
// kAlreadyExists when the folder has a model.safetensors. Requires the values of
// AllParameters(config.model, {}, {}), in this order.
Status WriteWeights(io::FileSystem& files, const std::string& folder,
                    const HuggingFaceConfig& config,
                    std::span<const std::span<const float>> values);

}  // namespace longhaul::training
