// Writes a catalog as a checkpoint of another format, in a stream: a few megabytes of memory,
// whatever the size.
//
// What is written appears under its name when it is whole and synced: a failure, a stop and a crash
// leave nothing there but a ".partial" beside it. Every tensor is read through the catalog's
// reader, so it is verified where its format has hashes; archives of PyTorch are held against their
// CRC-32s before. docs/checkpoint-formats.md says what each
// format can't hold.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "checkpoint/formats/catalog.h"
#include "io/files/file.h"

namespace longhaul::checkpoint {

struct WriteOptions {
  io::FileSystem* source = nullptr;  // where the catalog's files are; null: where it is written
  Format format = Format::kSafetensors;
  uint64_t max_shard_bytes = 0;  // of safetensors and dcp: begin another file after; 0: one file
  // Of a run's checkpoint, where the catalog has none.
  std::string job = "converted";
  uint64_t step = 0;
  uint64_t attempt = 0;
  // Called with bytes done and in all; false stops it with kCancelled. May be empty.
  std::function<bool(uint64_t done, uint64_t total)> progress;
};

// `path` is a file or folder that must not exist; of kLonghaul the folder of a run's checkpoints,
// in which the step must not exist. kAlreadyExists when it does; kInvalidArgument when the format
// can't hold a tensor.
Status WriteCheckpoint(io::FileSystem& files, const Catalog& catalog, const std::string& path,
                       const WriteOptions& options);

}  // namespace longhaul::checkpoint
