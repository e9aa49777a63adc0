// Files kept compressed: a file system that keeps shards as zstd frames and gives them back as
// they were.
//
// Under another file system, NAME.safetensors lies as NAME.safetensors.zst: blocks of at most 1
// MiB, each a frame of its own, then a table with the size and hash of each (docs/packed-shards.md
// has the format to the byte). Whoever writes, reads, lists, sizes or removes NAME.safetensors here
// sees the file itself; all other names are left alone. So checkpoints are verified as they are
// anywhere, by the hashes of their manifests and chunks, and a part of a shard costs the unpacking
// of the blocks that it lies in. A frame is held against its hash before it is unpacked and must
// give exactly the bytes that the table says, of which none is over 1 MiB: nothing unpacks into
// more.
//
// What is appended is cut at each MiB of it, so that the blocks of a shard are the chunks of its
// tensors. Bytes of numbers are sorted by their place in the number first (all highest bytes, then
// the next ones): signs and exponents repeat, mantissas don't.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/files/file.h"

namespace longhaul::objects {

constexpr size_t kPackedBlockBytes = 1 << 20;

enum class Packing {
  kReadOnly,  // what is packed is read; what is written is left as it is
  kZstd,      // shards are packed
};

class PackedFiles final : public io::FileSystem {
 public:
  // Requires that `under` outlives this and every file opened.
  PackedFiles(io::FileSystem& under, Packing packing) : under_(under), packing_(packing) {}

  // Shards, and those that are being written. The name under which it is kept when it is packed.
  static bool CanBePacked(std::string_view path);
  static std::string PackedPath(const std::string& path) { return path + ".zst"; }

  Result<std::unique_ptr<io::ReadableFile>> Open(const std::string& path) override;
  Result<std::unique_ptr<io::ReadableFile>> OpenBulk(const std::string& path) override;
  Result<std::unique_ptr<io::WritableFile>> Create(const std::string& path) override;
  Result<std::unique_ptr<io::WritableFile>> CreateBulk(const std::string& path,
                                                       uint64_t bytes) override;
  Result<std::vector<std::byte>> ReadAll(const std::string& path, uint64_t limit) override;
  Result<uint64_t> Size(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Remove(const std::string& path) override;
  Status RemoveDirectory(const std::string& path) override { return under_.RemoveDirectory(path); }
  Status MakeDirectories(const std::string& path) override { return under_.MakeDirectories(path); }
  Status SyncDirectory(const std::string& path) override { return under_.SyncDirectory(path); }
  Result<std::vector<std::string>> List(const std::string& path) override;
  bool appears_whole() const override { return under_.appears_whole(); }

  // So many bytes of frames were written through this so far. Any thread.
  uint64_t packed_bytes() const { return *packed_bytes_; }

 private:
  std::unique_ptr<io::WritableFile> Pack(const std::string& path,
                                         std::unique_ptr<io::WritableFile> file);

  io::FileSystem& under_;
  const Packing packing_;
  const std::shared_ptr<std::atomic<uint64_t>> packed_bytes_ =  // with each file that is written
      std::make_shared<std::atomic<uint64_t>>(0);
};

// Opens a packed file under its own path. kDataLoss naming it when it is cut, changed or of another
// kind.
Result<std::unique_ptr<io::ReadableFile>> OpenPacked(io::FileSystem& files,
                                                     const std::string& path);

// Writes a packed file to a file that is empty so far; it is whole after Sync, which ends it. Calls
// `wrote` after each frame, and `whole` after the sync.
struct PackHooks {
  std::function<void(uint64_t bytes)> wrote = {};
  std::function<Status()> whole = {};
};
std::unique_ptr<io::WritableFile> PackInto(std::unique_ptr<io::WritableFile> file,
                                           PackHooks hooks = {});

}  // namespace longhaul::objects
