// Any bytes as a packed file: what is accepted gives exactly the bytes that its end says, and what
// is packed comes back.

#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "io/files/file.h"
#include "objects/packed.h"
#include "objects/packed_format.h"

using namespace longhaul;
using namespace longhaul::objects;

namespace {

void TryAsPacked(std::span<const std::byte> file) {
  if (file.size() < kPackedTrailerBytes) return;
  const auto trailer = ParsePackedTrailer(file.last(kPackedTrailerBytes), file.size());
  if (!trailer.ok()) return;
  CHECK(trailer->stored + trailer->blocks * kPackedEntryBytes + kPackedTrailerBytes == file.size());
  const auto blocks = ParsePackedTable(
      file.subspan(trailer->stored, trailer->blocks * kPackedEntryBytes), *trailer);
  if (!blocks.ok()) return;
  Unpacker unpacker;
  size_t at = 0;
  for (const PackedBlock& block : *blocks) {
    CHECK(block.bytes <= kPackedBlockBytes);
    std::vector<std::byte> to(block.bytes);
    (void)unpacker.Unpack(block, file.subspan(at, block.stored), to);
    at += block.stored;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  TryAsPacked(bytes);
  if (size == 0 || size > kPackedBlockBytes) return 0;
  Packer packer;
  const auto packed = packer.Pack(bytes);
  Unpacker unpacker;
  std::vector<std::byte> back(size);
  CHECK(unpacker.Unpack(packed.block, packed.stored, back).ok());
  CHECK(std::equal(back.begin(), back.end(), bytes.begin()));
  // The frame with bytes that its table vouches for, whatever they are.
  PackedBlock forged{static_cast<uint32_t>(std::min<size_t>(size * 7 + 1, kPackedBlockBytes)),
                     static_cast<uint32_t>(size), 4, 0};
  forged.hash = packed.block.hash;
  std::vector<std::byte> to(forged.bytes);
  if (packed.block.stride == 0) (void)unpacker.Unpack(forged, bytes, to);
  return 0;
}
