// Writes a catalog as a checkpoint of another format, as a stream with a few megabytes of memory
// for any size.
//
// The output has its final name only once it is complete and synced: a failure, a stop or a crash
// leaves at most a ".partial" beside it. All tensors are read through the catalog's reader, so they
// are verified if their format has hashes; archives of PyTorch are verified by CRC-32 first.
// docs/checkpoint-formats.md lists what each format can't hold.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "checkpoint/formats/catalog.h"
#include "io/files/file.h"

namespace longhaul::checkpoint {

struct WriteOptions {
  io::FileSystem* source = nullptr;  // the catalog's files; null: the target's file system
  Format format = Format::kSafetensors;
  uint64_t max_shard_bytes = 0;  // safetensors and dcp: start another file after this; 0: one file
  // For a run's checkpoint, if the catalog has none.
  std::string job = "converted";
  uint64_t step = 0;
  uint64_t attempt = 0;
  // Called with the done and the total bytes; false stops with kCancelled. May be empty.
  std::function<bool(uint64_t done, uint64_t total)> progress;
};

// `path` is a file or folder that must not exist; for kLonghaul the folder of a run's checkpoints,
// in which the step must not exist. Returns kAlreadyExists when it does, and kInvalidArgument when
// the format can't hold a tensor.
Status WriteCheckpoint(io::FileSystem& files, const Catalog& catalog, const std::string& path,
                       const WriteOptions& options);

}  // namespace longhaul::checkpoint
