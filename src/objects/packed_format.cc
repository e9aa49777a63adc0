#include "objects/packed_format.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"
#include "objects/packed.h"

namespace longhaul::objects {
namespace {

constexpr char kMagic[8] = {'L', 'H', 'P', 'A', 'C', 'K', '0', '1'};
constexpr uint64_t kMaxBytes = uint64_t{1} << 46;  // as of a state
constexpr int kLevel = 1;                          // higher ones gain nothing on mantissas
constexpr std::array<uint32_t, 4> kStrides = {1, 2, 4, 8};
constexpr size_t kSample = 16 << 10;

// As they lie in the file, little-endian.
struct Entry {
  uint32_t bytes = 0;
  uint32_t stored = 0;
  uint32_t stride = 0;
  uint32_t zero = 0;
  uint64_t hash = 0;
};
static_assert(sizeof(Entry) == kPackedEntryBytes);

struct Trailer {
  uint64_t bytes = 0;
  uint64_t blocks = 0;
  uint64_t stored = 0;
  uint64_t table_hash = 0;
  uint64_t zero[2] = {};
  char magic[8] = {};
  uint64_t hash = 0;  // XXH3-64 of what is before it
};
static_assert(sizeof(Trailer) == kPackedTrailerBytes);

// All first bytes of numbers, then all second ones, ...; what is left over at the end as it is.
void Sort(std::span<const std::byte> from, size_t stride, std::span<std::byte> to) {
  const size_t numbers = from.size() / stride;
  for (size_t place = 0; place < stride; ++place) {
    std::byte* plane = to.data() + place * numbers;
    for (size_t i = 0; i < numbers; ++i) plane[i] = from[i * stride + place];
  }
  std::copy(from.begin() + static_cast<std::ptrdiff_t>(numbers * stride), from.end(),
            to.begin() + static_cast<std::ptrdiff_t>(numbers * stride));
}

void Unsort(std::span<const std::byte> from, size_t stride, std::span<std::byte> to) {
  const size_t numbers = from.size() / stride;
  for (size_t place = 0; place < stride; ++place) {
    const std::byte* plane = from.data() + place * numbers;
    for (size_t i = 0; i < numbers; ++i) to[i * stride + place] = plane[i];
  }
  std::copy(from.begin() + static_cast<std::ptrdiff_t>(numbers * stride), from.end(),
            to.begin() + static_cast<std::ptrdiff_t>(numbers * stride));
}

}  // namespace

std::string EncodePackedEnd(const std::vector<PackedBlock>& blocks) {
  Trailer trailer;
  std::string text;
  text.reserve(blocks.size() * sizeof(Entry) + sizeof(Trailer));
  for (const PackedBlock& block : blocks) {
    const Entry entry{block.bytes, block.stored, block.stride, 0, block.hash};
    text.append(reinterpret_cast<const char*>(&entry), sizeof(entry));
    trailer.bytes += block.bytes;
    trailer.stored += block.stored;
  }
  trailer.blocks = blocks.size();
  trailer.table_hash = Hash64(text);
  std::copy(std::begin(kMagic), std::end(kMagic), std::begin(trailer.magic));
  trailer.hash = Hash64(&trailer, offsetof(Trailer, hash));
  text.append(reinterpret_cast<const char*>(&trailer), sizeof(trailer));
  return text;
}

Result<PackedTrailer> ParsePackedTrailer(std::span<const std::byte> bytes, uint64_t packed_bytes) {
  Trailer trailer;
  if (bytes.size() != sizeof(trailer)) return DataLoss("it is too short for a packed file");
  std::memcpy(&trailer, bytes.data(), sizeof(trailer));
  if (std::memcmp(trailer.magic, kMagic, sizeof(kMagic)) != 0) {
    return DataLoss("it is cut short, or not a packed file");
  }
  if (trailer.hash != Hash64(&trailer, offsetof(Trailer, hash))) {
    return DataLoss("the hash of its last 64 bytes differs");
  }
  // Sums that can't overflow: each is held against what there is first.
  const bool sound =
      trailer.zero[0] == 0 && trailer.zero[1] == 0 && trailer.bytes <= kMaxBytes &&
      trailer.stored <= packed_bytes && trailer.blocks <= packed_bytes / sizeof(Entry) &&
      trailer.bytes / kPackedBlockBytes <= trailer.blocks &&
      trailer.stored + trailer.blocks * sizeof(Entry) + sizeof(Trailer) == packed_bytes;
  if (!sound) return DataLoss("its table doesn't fit its size: it is cut or has grown");
  return PackedTrailer{trailer.bytes, trailer.blocks, trailer.stored, trailer.table_hash};
}

Result<std::vector<PackedBlock>> ParsePackedTable(std::span<const std::byte> table,
                                                  const PackedTrailer& trailer) {
  CHECK(table.size() == trailer.blocks * sizeof(Entry));
  if (Hash64(table.data(), table.size()) != trailer.table_hash) {
    return DataLoss("the table's hash differs");
  }
  std::vector<PackedBlock> blocks;
  blocks.reserve(trailer.blocks);
  uint64_t bytes = 0, stored = 0;
  for (size_t at = 0; at < table.size(); at += sizeof(Entry)) {
    Entry entry;
    std::memcpy(&entry, table.data() + at, sizeof(entry));
    const bool as_it_is = entry.stride == 0;
    const bool known = as_it_is || std::ranges::find(kStrides, entry.stride) != kStrides.end();
    const bool sized = as_it_is ? entry.stored == entry.bytes : entry.stored < entry.bytes;
    if (entry.bytes == 0 || entry.bytes > kPackedBlockBytes || !known || !sized ||
        entry.zero != 0) {
      return DataLoss("block " + std::to_string(blocks.size()) + " of its table makes no sense");
    }
    blocks.push_back({entry.bytes, entry.stored, entry.stride, entry.hash});
    bytes += entry.bytes;
    stored += entry.stored;
  }
  if (bytes != trailer.bytes || stored != trailer.stored) {
    return DataLoss("block table and footer disagree on sizes");
  }
  return blocks;
}

struct Packer::Context {
  ZSTD_CCtx* zstd = ZSTD_createCCtx();
  std::vector<std::byte> sorted = std::vector<std::byte>(kPackedBlockBytes);
  std::vector<std::byte> out = std::vector<std::byte>(ZSTD_compressBound(kPackedBlockBytes));
  ~Context() { ZSTD_freeCCtx(zstd); }

  // The size of the frame in `out`; what doesn't become smaller counts as it is.
  size_t Compress(std::span<const std::byte> block, size_t stride) {
    const auto to = std::span(sorted).first(block.size());
    if (stride > 1) Sort(block, stride, to);
    const std::byte* from = stride > 1 ? to.data() : block.data();
    const size_t size = ZSTD_compressCCtx(zstd, out.data(), out.size(), from, block.size(), kLevel);
    return ZSTD_isError(size) != 0U ? block.size() : std::min(size, block.size());
  }
};

Packer::Packer() : context_(std::make_unique<Context>()) { CHECK(context_->zstd != nullptr); }
Packer::~Packer() = default;

// The width of the numbers is unknown: the width that packs the beginning best is used.
Packer::Packed Packer::Pack(std::span<const std::byte> block) {
  CHECK(!block.empty() && block.size() <= kPackedBlockBytes);
  uint32_t best = 1;
  size_t least = SIZE_MAX;
  const auto sample = block.first(std::min(kSample, block.size()));
  for (const uint32_t stride : kStrides) {
    const size_t size = context_->Compress(sample, stride);
    if (size < least) {
      best = stride;
      least = size;
    }
  }
  const size_t size = context_->Compress(block, best);
  Packed packed;
  packed.stored =
      size < block.size() ? std::span<const std::byte>(context_->out).first(size) : block;
  packed.block = {static_cast<uint32_t>(block.size()), static_cast<uint32_t>(packed.stored.size()),
                  size < block.size() ? best : 0,
                  Hash64(packed.stored.data(), packed.stored.size())};
  return packed;
}

struct Unpacker::Context {
  ZSTD_DCtx* zstd = ZSTD_createDCtx();
  std::vector<std::byte> sorted = std::vector<std::byte>(kPackedBlockBytes);
  ~Context() { ZSTD_freeDCtx(zstd); }
};

Unpacker::Unpacker() : context_(std::make_unique<Context>()) { CHECK(context_->zstd != nullptr); }
Unpacker::~Unpacker() = default;

Status Unpacker::Unpack(const PackedBlock& block, std::span<const std::byte> stored,
                        std::span<std::byte> to) {
  CHECK(stored.size() == block.stored && to.size() == block.bytes);
  if (Hash64(stored.data(), stored.size()) != block.hash) return DataLoss("its hash differs");
  if (block.stride == 0) {
    std::copy(stored.begin(), stored.end(), to.begin());
    return {};
  }
  const auto unpacked = block.stride > 1 ? std::span(context_->sorted).first(to.size()) : to;
  // It writes no byte beyond the block's own size, for any frame.
  const size_t size = ZSTD_decompressDCtx(context_->zstd, unpacked.data(), unpacked.size(),
                                          stored.data(), stored.size());
  if (ZSTD_isError(size) != 0U) {
    return DataLoss(std::string("it doesn't unpack: ") + ZSTD_getErrorName(size));
  }
  if (size != unpacked.size()) {
    return DataLoss("it unpacks to " + std::to_string(size) + " bytes, not " +
                    std::to_string(unpacked.size()));
  }
  if (block.stride > 1) Unsort(unpacked, block.stride, to);
  return {};
}

}  // namespace longhaul::objects
