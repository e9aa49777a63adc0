// .metadata of torch.distributed.checkpoint: the pickle of a dataclass, read as values.
//
//   Metadata.state_dict_metadata: name -> TensorStorageMetadata(properties, size, chunks of
//     (offsets, sizes)) or BytesStorageMetadata
//   Metadata.storage_data: MetadataIndex(fqn, offset) ->
//     _StorageInfo(relative_path, offset, length)
//   Metadata.planner_data: name -> the path in the nested state (a tuple of keys)
//
// The classes are in torch.distributed.checkpoint since PyTorch 2.0 and in
// torch.distributed._shard.checkpoint before it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/reshard/box.h"
#include "checkpoint/state.h"

namespace longhaul::checkpoint {

struct DistributedPart {
  Box box;
  std::string file;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct PathKey {
  std::string name;
  int64_t index = 0;
  bool is_index = false;
};

struct DistributedEntry {
  TensorInfo tensor;  // only the name, if it is no tensor
  bool is_tensor = false;
  std::vector<DistributedPart> parts;  // one for a value that is no tensor
  std::vector<PathKey> path;           // never empty
};

struct DistributedMetadata {
  std::vector<DistributedEntry> entries;  // in the pickle's order
};

// Returns kInvalidArgument or kDataLoss with the reason.
Result<DistributedMetadata> ReadDistributedMetadata(std::string_view pickle);

}  // namespace longhaul::checkpoint
