// Reads boxes of a catalog's tensors: each byte at most once, and only the bytes that are needed.
//
// If the format has hashes of chunks, it reads whole chunks, each once, and returns no byte before
// its chunk's hash agrees. The reader counts the bytes that it reads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/formats/catalog.h"
#include "checkpoint/reshard/read_plan.h"
#include "io/files/file.h"

namespace longhaul::checkpoint {

struct ReadOptions {
  bool verify = true;        // if the format has hashes
  uint64_t largest_gap = 0;  // merges reads at most this far apart
};

struct ReadCount {
  uint64_t bytes = 0;  // read from files
  uint64_t reads = 0;
  uint64_t memory_bytes = 0;   // copied from memory
  uint64_t fetched_bytes = 0;  // received from elsewhere
};

// One read of a file: at most kBlockReadBytes, with a hash if it is a whole chunk.
struct ReadBlock {
  uint32_t file = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::optional<uint64_t> hash;
};
inline constexpr uint64_t kBlockReadBytes = 8 << 20;

// Returns the reads for a plan, in the order in which the reader will make them.
std::vector<ReadBlock> BlocksOf(const Catalog& catalog, const ReadPlan& plan, bool verify);

class CatalogReader {
 public:
  // Requires that `files` and `catalog` outlive this.
  CatalogReader(io::FileSystem& files, const Catalog& catalog) : files_(files), catalog_(catalog) {}

  // Fills `to` with the wanted boxes, one span each. Returns kDataLoss with the file and the byte
  // when a hash differs or a file is too short. Requires spans of the boxes' sizes.
  Status Read(std::span<const WantedShard> wanted, std::span<const std::span<std::byte>> to,
              const ReadOptions& options = {});

  // Reads elements [begin, begin + to.size() / element) of a whole tensor, row-major. Requires a
  // range within it.
  Status ReadRange(uint32_t tensor, int64_t begin, std::span<std::byte> to,
                   const ReadOptions& options = {});

  const ReadCount& count() const { return count_; }
  // The file with a hash mismatch in the last read, or whose bytes could not be fetched.
  std::optional<uint32_t> damaged_file() const { return damaged_file_; }

 private:
  Status Run(const ReadPlan& plan, std::span<const std::span<std::byte>> to, bool verify);
  Status Fetch(const ReadBlock& block);  // into buffer_

  io::FileSystem& files_;
  const Catalog& catalog_;
  std::unique_ptr<io::ReadableFile> opened_;
  uint32_t opened_index_ = 0;
  std::vector<std::byte> buffer_;
  ReadCount count_;
  std::optional<uint32_t> damaged_file_;
};

}  // namespace longhaul::checkpoint
