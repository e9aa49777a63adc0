#include "io/files/patchable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/check.h"

namespace longhaul::io {

Result<PatchableFile> PatchableFile::Create(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return FromErrno(errno, "cannot create " + path);
  return PatchableFile(Fd(fd), path);
}

Status PatchableFile::WriteAt(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FromErrno(errno, "cannot write " + path_);
    offset += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Status PatchableFile::Append(std::span<const std::byte> bytes) {
  RETURN_IF_ERROR(WriteAt(bytes_, bytes));
  bytes_ += bytes.size();
  return {};
}

Status PatchableFile::PatchAt(uint64_t offset, std::span<const std::byte> bytes) {
  CHECK(offset <= bytes_ && bytes.size() <= bytes_ - offset);
  return WriteAt(offset, bytes);
}

Status PatchableFile::Sync() {
  if (fsync(fd_.get()) != 0) return FromErrno(errno, "cannot sync " + path_);
  return {};
}

Status PatchableFile::Close() {
  if (close(fd_.Release()) != 0 && errno != EINTR) {
    return FromErrno(errno, "cannot close " + path_);
  }
  return {};
}

}  // namespace longhaul::io
