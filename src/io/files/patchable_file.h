// A new file that is written in order and patched in places: for formats whose headers contain
// checksums of the data after them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "io/fd.h"

namespace longhaul::io {

class PatchableFile {
 public:
  // Truncates an existing file.
  static Result<PatchableFile> Create(const std::string& path);

  uint64_t bytes() const { return bytes_; }
  Status Append(std::span<const std::byte> bytes);
  // Requires a range within the appended bytes.
  Status PatchAt(uint64_t offset, std::span<const std::byte> bytes);
  // The data is durable after this.
  Status Sync();
  // Requires no further call.
  Status Close();

 private:
  PatchableFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes);

  Fd fd_;
  std::string path_;
  uint64_t bytes_ = 0;
};

}  // namespace longhaul::io
