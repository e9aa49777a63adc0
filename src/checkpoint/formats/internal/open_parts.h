// Functions that the readers of several formats share.
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

// Refuses anything but a plain file name inside a folder: empty names, names with a slash or a zero
// byte, "." and "..".
Status CheckFileName(std::string_view name);

// The header of a safetensors file.
Result<SafetensorsHeader> ReadSafetensors(io::FileSystem& files, const std::string& path);

// Adds a file whose tensors are all whole ones.
void AddWholeTensors(const SafetensorsHeader& header, const std::string& path, Catalog& catalog);

// Reads the tree from the metadata or from the tensor that holds it, which is then removed from the
// catalog, and names the tensors as PyTorch does (UseDottedNames). Verifies every byte of the
// tensor if the format has hashes. A text that is no tree for these tensors is not changed.
Status TakeTree(io::FileSystem& files, Catalog& catalog);

// Renames the tensors of a catalog with the tree left among them: those of an older checkpoint
// become "model.0.weight" (docs/checkpoint-format.md, "Names"). Reads and verifies the tree.
Status UseDottedNames(io::FileSystem& files, Catalog& catalog);

// Adds a shard at `tensor`'s place in the file of that index. One that isn't contiguous is
// converted in memory, in a file of its own. Returns kResourceExhausted beyond 16 GiB of these.
Status AddStrided(const io::ReadableFile& file, uint32_t file_index, const StridedTensor& tensor,
                  uint32_t index, const Box& box, Catalog& catalog);

}  // namespace longhaul::checkpoint::internal
