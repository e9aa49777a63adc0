// What the readers of several formats share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/formats/catalog.h"
#include "checkpoint/formats/torch_file.h"
#include "checkpoint/safetensors.h"
#include "io/files/file.h"

namespace longhaul::checkpoint::internal {

// Refuses what isn't the plain name of a file inside of a folder: empty, with a slash or a zero,
// "." or "..".
Status CheckFileName(std::string_view name);

// The header of a safetensors file.
Result<SafetensorsHeader> ReadSafetensors(io::FileSystem& files, const std::string& path);

// Adds a file whose tensors are all whole.
void AddWholeTensors(const SafetensorsHeader& header, const std::string& path, Catalog& catalog);

// Takes the tree from the metadata or from the tensor that holds it, which then is no tensor of the
// catalog, and names the tensors as PyTorch does (UseDottedNames). Every byte of the tensor is
// verified where the format has hashes. A text that is no tree for these tensors is left where it
// is.
Status TakeTree(io::FileSystem& files, Catalog& catalog);

// The names of a catalog whose tree is left among its tensors: those of an older checkpoint become
// "model.0.weight" (docs/checkpoint-format.md, "Names"). Reads and verifies the tree.
Status UseDottedNames(io::FileSystem& files, Catalog& catalog);

// Adds a shard that lies at `tensor`'s place in the file of that index; one that isn't contiguous
// is laid out anew in memory, in a file of its own. kResourceExhausted beyond 16 GiB of these.
Status AddStrided(const io::ReadableFile& file, uint32_t file_index, const StridedTensor& tensor,
                  uint32_t index, const Box& box, Catalog& catalog);

}  // namespace longhaul::checkpoint::internal
