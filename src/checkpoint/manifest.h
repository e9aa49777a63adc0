// MANIFEST: what makes a directory of files a committed checkpoint. JSON with its own hash at the
// end; the format is in docs/checkpoint-format.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::checkpoint {

// One rank's file, as its writer saw it.
struct PieceFile {
  std::string name;  // inside the checkpoint's directory
  uint32_t rank = 0;
  uint64_t bytes = 0;
  uint64_t hash = 0;  // XXH3-64 of the whole file

  friend bool operator==(const PieceFile&, const PieceFile&) = default;
};

// Where the data stands after the checkpoint's step: weights and data commit together.
struct DataCursor {
  uint64_t samples_consumed = 0;
  uint64_t samples = 0;  // in the data set; 0: the job doesn't use the data ledger
  uint64_t global_batch = 0;
  uint64_t seed = 0;
  std::string fingerprint;

  friend bool operator==(const DataCursor&, const DataCursor&) = default;
};

struct Manifest {
  std::string job;
  uint64_t step = 0;
  uint64_t epoch = 0;
  uint32_t world = 0;
  bool replicated = false;  // every rank holds the same state: rank 0's piece serves all
  DataCursor data;
  std::vector<PieceFile> files;  // by rank, at least one

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// The file's name of a rank's piece: "rank-00000-of-00004.safetensors".
std::string PieceName(uint32_t rank, uint32_t world);

// Requires texts in UTF-8 and files that DecodeManifest accepts.
std::string EncodeManifest(const Manifest& manifest);

// kDataLoss when it is cut, changed or not a manifest of this format.
Result<Manifest> DecodeManifest(std::string_view text);

}  // namespace longhaul::checkpoint
