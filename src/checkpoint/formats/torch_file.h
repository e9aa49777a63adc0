// The format of torch.save since PyTorch 1.6: a ZIP archive of one pickle and the storages it
// names.
//
//   NAME/data.pkl      the object; tensors are torch._utils._rebuild_tensor_v2(storage, offset,
//                      size, stride, ...), storages are persistent ids
//                      ("storage", class, key, device, elements)
//   NAME/data/KEY      a storage's bytes; NAME/byteorder, NAME/version
//
// Read without running anything: the pickle may name tensors, storages, dtypes and a few plain
// classes (kTorchGlobals), and becomes a tree of values. Leaves out big-endian files, quantized,
// sparse and complex tensors and user classes: refused by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/pickle/pickle.h"
#include "base/status.h"
#include "checkpoint/formats/state_tree.h"
#include "checkpoint/state.h"
#include "io/files/file.h"

namespace longhaul::checkpoint {

inline constexpr uint64_t kMaxTorchPickle = 1 << 30;

// A tensor over a storage in a file. Strides are in elements; any that stay inside the storage are
// allowed, zero too.
struct StridedTensor {
  TensorInfo info;  // named by its path: "optimizer.state.0.exp_avg"
  std::vector<int64_t> strides;
  uint64_t offset = 0;  // of its first element, from the file's start
};

struct TorchFile {
  std::vector<StridedTensor> tensors;
  Tree tree;
};

// Reads the archive that is [begin, begin + bytes) of a file. Returns kDataLoss or kInvalidArgument
// with the reason. Does not read the tensors' bytes.
Result<TorchFile> ReadTorchFile(const io::ReadableFile& file, uint64_t begin, uint64_t bytes);

// Returns whether the tensor is contiguous and row-major.
bool IsContiguous(const StridedTensor& tensor);

// Returns the bytes from the first to the end of the last element of the tensor.
uint64_t SpanBytes(const StridedTensor& tensor);

// Verifies every entry of the archive against its CRC-32. Returns kDataLoss with the entry and its
// offset.
Status VerifyTorchFile(const io::ReadableFile& file, uint64_t begin, uint64_t bytes);

// Converts PyTorch's name of a dtype ("torch.float32") to safetensors' and back; empty when there
// is none.
std::string_view DtypeOfTorch(std::string_view torch_name);
std::string_view TorchOfDtype(std::string_view dtype);  // "float32"
// "FloatStorage"; empty for dtypes newer than the typed storages.
std::string_view StorageOfDtype(std::string_view dtype);

}  // namespace longhaul::checkpoint
