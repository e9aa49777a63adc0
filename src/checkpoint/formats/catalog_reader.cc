#include "checkpoint/formats/catalog_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "checkpoint/copy.h"

namespace longhaul::checkpoint {
namespace {

// Whole chunks from the first to the last that a read touches, after those that `blocks` has.
// A hash covers a whole chunk, so all chunks that a read touches are read whole. Reads are sorted,
// so a chunk that two of them share is the last one added.
void AddChunks(const std::vector<HashedChunk>& chunks, const Read& read,
               std::vector<ReadBlock>& blocks) {
  auto chunk = std::upper_bound(
      chunks.begin(), chunks.end(), read.offset,
      [](uint64_t offset, const HashedChunk& at) { return offset < at.offset + at.bytes; });
  for (; chunk != chunks.end() && chunk->offset < read.offset + read.bytes; ++chunk) {
    const bool had =
        !blocks.empty() && blocks.back().file == read.file && blocks.back().offset >= chunk->offset;
    if (!had) blocks.push_back({read.file, chunk->offset, chunk->bytes, chunk->hash});
  }
}

}  // namespace

std::vector<ReadBlock> BlocksOf(const Catalog& catalog, const ReadPlan& plan, bool verify) {
  std::vector<ReadBlock> blocks;
  for (const longhaul::checkpoint::Read& read : plan.reads) {
    const CatalogFile& file = catalog.files[read.file];
    if (verify && !file.chunks.empty()) {
      AddChunks(file.chunks, read, blocks);
      continue;
    }
    for (uint64_t at = 0; at < read.bytes; at += kBlockReadBytes) {
      blocks.push_back(
          {read.file, read.offset + at, std::min(kBlockReadBytes, read.bytes - at), std::nullopt});
    }
  }
  return blocks;
}

Status CatalogReader::Fetch(const ReadBlock& block) {
  const CatalogFile& file = catalog_.files[block.file];
  buffer_.resize(block.bytes);
  if (file.in_memory) {
    // What is verified is the copy: others may write where it came from.
    std::memcpy(buffer_.data(), file.memory.data() + block.offset, block.bytes);
    count_.memory_bytes += block.bytes;
  } else if (file.fetch != nullptr) {
    const Status fetched = file.fetch(block.offset, buffer_);
    if (!fetched.ok()) {
      damaged_file_ = block.file;
      return fetched.WithContext(file.path);
    }
    count_.fetched_bytes += block.bytes;
  } else {
    if (opened_ == nullptr || opened_index_ != block.file) {
      opened_.reset();
      ASSIGN_OR_RETURN(opened_, files_.Open(file.path));
      opened_index_ = block.file;
    }
    ++count_.reads;
    count_.bytes += block.bytes;
    RETURN_IF_ERROR(opened_->Read(block.offset, buffer_));
  }
  if (block.hash.has_value() && HashChunk(buffer_) != *block.hash) {
    damaged_file_ = block.file;
    return DataLoss(file.path + ": the hash of the " + std::to_string(block.bytes) +
                    " bytes at byte " + std::to_string(block.offset) + " differs");
  }
  return {};
}

Status CatalogReader::Read(std::span<const WantedShard> wanted,
                           std::span<const std::span<std::byte>> to, const ReadOptions& options) {
  const auto element_bytes = catalog_.ElementBytes();
  damaged_file_.reset();
  CHECK(wanted.size() == to.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    CHECK(to[i].size() ==
          static_cast<uint64_t>(wanted[i].box.elements()) * element_bytes[wanted[i].tensor]);
  }
  ASSIGN_OR_RETURN(const ReadPlan plan, PlanReads(catalog_.shards, wanted, element_bytes,
                                                  catalog_.Names(), options.largest_gap));
  return Run(plan, to, options.verify);
}

// Blocks and reads are both by file and offset, the copies of a read by their place in it.
Status CatalogReader::Run(const ReadPlan& plan, std::span<const std::span<std::byte>> to,
                          bool verify) {
  size_t first = 0;       // the first read that isn't done
  size_t first_copy = 0;  // its first copy that isn't done
  // One block is in memory at a time. A copy may span several blocks, and a block may serve several
  // copies, so `first` and `first_copy` mark where the unfinished ones begin: both lists are walked
  // once.
  for (const ReadBlock& block : BlocksOf(catalog_, plan, verify)) {
    RETURN_IF_ERROR(Fetch(block));
    const uint64_t block_end = block.offset + block.bytes;
    for (; first < plan.reads.size(); ++first, first_copy = 0) {
      const auto& read = plan.reads[first];
      if (std::pair(read.file, read.offset + read.bytes) > std::pair(block.file, block.offset)) {
        break;
      }
    }
    for (size_t r = first; r < plan.reads.size(); ++r) {
      const auto& read = plan.reads[r];
      if (read.file != block.file || read.offset >= block_end) break;
      for (size_t i = r == first ? first_copy : 0; i < read.copies; ++i) {
        const Copy& copy = plan.copies[read.first_copy + i];
        const uint64_t begin = read.offset + copy.from;
        if (begin >= block_end) break;
        const uint64_t from = std::max(block.offset, begin);
        const uint64_t end = std::min(block_end, begin + copy.bytes);
        if (from < end) {
          std::memcpy(to[copy.wanted].data() + copy.to + (from - begin),
                      buffer_.data() + (from - block.offset), end - from);
        }
        if (r == first && i == first_copy && begin + copy.bytes <= block_end) ++first_copy;
      }
    }
  }
  return {};
}

// The range is a few boxes (BoxesOfRange), which together fill `to` in order.
Status CatalogReader::ReadRange(uint32_t tensor, int64_t begin, std::span<std::byte> to,
                                const ReadOptions& options) {
  const TensorInfo& info = catalog_.tensors[tensor];
  const uint64_t element = DtypeBytes(info.dtype).value_or(1);
  const auto count = static_cast<int64_t>(to.size() / element);
  std::vector<WantedShard> wanted;
  std::vector<std::span<std::byte>> parts;
  uint64_t at = 0;
  for (const Box& box : BoxesOfRange(info.shape, begin, begin + count)) {
    const uint64_t bytes = static_cast<uint64_t>(box.elements()) * element;
    wanted.push_back({0, box});
    parts.push_back(to.subspan(at, bytes));
    at += bytes;
  }
  // This tensor's shards alone, so that a walk over all tensors is linear.
  const auto of_tensor = std::equal_range(
      catalog_.shards.begin(), catalog_.shards.end(), SavedShard{tensor, {}, 0, 0},
      [](const SavedShard& a, const SavedShard& b) { return a.tensor < b.tensor; });
  std::vector<SavedShard> shards(of_tensor.first, of_tensor.second);
  for (SavedShard& shard : shards) shard.tensor = 0;
  ASSIGN_OR_RETURN(const ReadPlan plan,
                   PlanReads(shards, wanted, std::vector<uint64_t>{element},
                             std::vector<std::string>{info.name}, options.largest_gap));
  return Run(plan, parts, options.verify);
}

}  // namespace longhaul::checkpoint
