// The part of ZIP that torch.save uses: entries stored as they are, each checked by its CRC-32.
//
// APPNOTE.TXT of PKWARE is the format; sizes beyond 4 GiB are in ZIP64 records. Reading trusts the
// central directory alone and holds every entry to lie inside of the archive. Leaves out
// compression, encryption, several disks and archives with something before them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/files/file.h"
#include "io/files/patchable_file.h"

namespace longhaul::checkpoint {

struct ZipEntry {
  std::string name;
  uint64_t offset = 0;  // of its first byte, from the start of the file
  uint64_t bytes = 0;
  uint32_t crc = 0;

  friend bool operator==(const ZipEntry&, const ZipEntry&) = default;
};

// The entries of an archive that is [begin, begin + bytes) of a file, by name. kDataLoss with the
// reason when it is cut, or not an archive of stored entries with names of their own.
Result<std::vector<ZipEntry>> ReadZip(const io::ReadableFile& file, uint64_t begin, uint64_t bytes);

// The CRC-32 of ZIP over `bytes`, continuing from `crc`.
uint32_t Crc32(std::span<const std::byte> bytes, uint32_t crc = 0);

// Writes an archive at the end of a file that it doesn't own. The data of every entry begins at a
// multiple of 64 bytes from the archive's start, as torch.save does it.
class ZipWriter {
 public:
  // Requires that `file` outlives this.
  explicit ZipWriter(io::PatchableFile& file) : file_(file), begin_(file.bytes()) {}

  // An entry of `bytes`, which Append then gives. Requires a name of at most 60,000 bytes and that
  // the entry before has all of its bytes.
  Status Begin(const std::string& name, uint64_t bytes);
  Status Append(std::span<const std::byte> bytes);
  Status Add(const std::string& name, std::string_view content);
  // The directory; nothing may follow. Requires that the last entry has all of its bytes.
  Status Finish();

 private:
  struct Written {
    std::string name;
    uint64_t header_at = 0;  // from the archive's start
    uint64_t bytes = 0;
    uint32_t crc = 0;
  };
  Status EndEntry();

  io::PatchableFile& file_;
  const uint64_t begin_;
  std::vector<Written> entries_;
  uint64_t left_ = 0;  // bytes that the last entry still lacks
};

}  // namespace longhaul::checkpoint
