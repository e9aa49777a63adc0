// Compressed files: a file system that stores shards as zstd frames and returns their original
// bytes.
//
// NAME.safetensors is stored in the underlying file system as NAME.safetensors.zst: blocks of at
// most 1 MiB, each in its own frame, then a table with the size and hash of each
// (docs/packed-shards.md specifies the format to the byte). Callers that write, read, list, size or
// remove NAME.safetensors here see the file itself; all other names pass through unchanged. So
// checkpoints are verified as usual, by the hashes of their manifests and chunks, and reading a
// part of a shard unpacks only the blocks that contain it. A frame is checked against its hash
// before it is unpacked and must give exactly the number of bytes in the table, at most 1 MiB: no
// frame unpacks into more.
//
// Appended data is divided at each MiB, so that the blocks of a shard are the chunks of its
// tensors. The bytes of numbers are first sorted by their position in the number (all highest
// bytes, then the next ones): signs and exponents repeat, mantissas do not.
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
  kReadOnly,  // packed files are readable; files are written unpacked
  kZstd,      // shards are packed
};

class PackedFiles final : public io::FileSystem {
 public:
  // Requires that `under` outlives this object and every opened file.
  PackedFiles(io::FileSystem& under, Packing packing) : under_(under), packing_(packing) {}

  // Whether a path is a shard, also one being written; and its name in packed form.
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

  // The bytes of frames that were written through this object so far. Any thread may call it.
  uint64_t packed_bytes() const { return *packed_bytes_; }

 private:
  std::unique_ptr<io::WritableFile> Pack(const std::string& path,
                                         std::unique_ptr<io::WritableFile> file);

  io::FileSystem& under_;
  const Packing packing_;
  const std::shared_ptr<std::atomic<uint64_t>> packed_bytes_ =  // shared with each written file
      std::make_shared<std::atomic<uint64_t>>(0);
};

// Opens a packed file under its own path. kDataLoss, with the path, when the file is truncated,
// changed or of another kind.
Result<std::unique_ptr<io::ReadableFile>> OpenPacked(io::FileSystem& files,
                                                     const std::string& path);

// Writes a packed file to a file that is still empty; it is complete after Sync, which ends it.
// Calls `wrote` after each frame, and `whole` after the sync.
struct PackHooks {
  std::function<void(uint64_t bytes)> wrote = {};
  std::function<Status()> whole = {};
};
std::unique_ptr<io::WritableFile> PackInto(std::unique_ptr<io::WritableFile> file,
                                           PackHooks hooks = {});

}  // namespace longhaul::objects
