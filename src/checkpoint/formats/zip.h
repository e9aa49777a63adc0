// The subset of ZIP that torch.save uses: uncompressed entries with CRC-32.
//
// PKWARE's APPNOTE.TXT has the format; sizes beyond 4 GiB are in ZIP64 records. The reader uses
// only the central directory and checks that every entry is inside the archive. Leaves out
// compression, encryption, several disks and archives that don't begin at the start.
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

// Returns the entries, by name, of the archive that is [begin, begin + bytes) of a file. Returns
// kDataLoss with the reason when it is truncated, or not an archive of uncompressed entries with
// unique names.
Result<std::vector<ZipEntry>> ReadZip(const io::ReadableFile& file, uint64_t begin, uint64_t bytes);

// Returns the CRC-32 of ZIP over `bytes`, continued from `crc`.
uint32_t Crc32(std::span<const std::byte> bytes, uint32_t crc = 0);

// Writes an archive at the end of a file that it doesn't own. The data of every entry begins at a
// multiple of 64 bytes from the archive's start, as in torch.save.
class ZipWriter {
 public:
  // Requires that `file` outlives this.
  explicit ZipWriter(io::PatchableFile& file) : file_(file), begin_(file.bytes()) {}

  // Begins an entry of `bytes` bytes, which Append then adds. Requires a name of at most 60,000
  // bytes, and that the previous entry is complete.
  Status Begin(const std::string& name, uint64_t bytes);
  Status Append(std::span<const std::byte> bytes);
  Status Add(const std::string& name, std::string_view content);
  // Writes the directory; nothing may follow. Requires that the last entry is complete.
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
  uint64_t left_ = 0;  // missing bytes of the last entry
};

}  // namespace longhaul::checkpoint
