// MANIFEST: the file that makes a directory a committed checkpoint. It names the global tensors,
// the files, and the place and hash of each box of a tensor. JSON with its own hash at the end;
// docs/checkpoint-format.md has the format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/reshard/box.h"
#include "checkpoint/state.h"

namespace longhaul::checkpoint {

// One rank's file, as written.
struct PieceFile {
  std::string name;  // inside the checkpoint's directory
  uint32_t rank = 0;
  uint64_t bytes = 0;
  uint64_t hash = 0;  // XXH3-64 of its header, which contains the hash of every chunk
  uint64_t header_bytes = 0;
  std::vector<uint32_t> also = {};  // ranks without a file that have the same state; rising

  friend bool operator==(const PieceFile&, const PieceFile&) = default;
};

// A box of a global tensor in a file.
struct Piece {
  uint32_t tensor = 0;  // index of Manifest::tensors
  uint32_t file = 0;    // index of Manifest::files
  std::string name;     // in the file
  Box box;
  uint64_t offset = 0;  // of its first byte in the file
  uint64_t hash = 0;    // HashOfChunks of its chunks' hashes (shard.h)

  friend bool operator==(const Piece&, const Piece&) = default;
};

// The position in the data after the checkpoint's step: weights and data commit together.
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
  uint64_t attempt = 0;
  uint32_t world = 0;
  bool replicated = false;  // every rank holds the same state: rank 0's piece serves all; else
                            // each rank has a file or is among the `also` of one
  std::optional<double> validation_loss;  // finite; the newest one at or before the step
  DataCursor data;
  std::vector<TensorInfo> tensors;  // global ones, in the order of the pieces
  std::vector<PieceFile> files;     // by rank, at least one
  std::vector<Piece> pieces;        // by file, in the order of their bytes

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// Returns the size of a piece. Requires a manifest that DecodeManifest accepts.
uint64_t PieceBytes(const Manifest& manifest, const Piece& piece);

// Returns the file with a rank's state: its own, or that of a rank with the same state. Null when
// there is none.
const PieceFile* FileOfRank(const Manifest& manifest, uint32_t rank);

// Returns the name of a rank's file: "rank-00000-of-00004.safetensors".
std::string PieceName(uint32_t rank, uint32_t world);

// Requires texts in UTF-8 and files that DecodeManifest accepts.
std::string EncodeManifest(const Manifest& manifest);

// Returns kDataLoss when it is truncated, changed or not a manifest of this format.
Result<Manifest> DecodeManifest(std::string_view text);

}  // namespace longhaul::checkpoint
