// An object store as files: what reads and writes checkpoints in a directory does so there.
//
// Paths are s3://BUCKET/KEY. An object appears whole when its file is synced, or not at all
// (`appears_whole`), so nothing needs a temporary name, and nothing can be renamed. Directories
// are only the slashes in keys: making, removing and syncing them does nothing, and one without
// objects is absent. Large files go up in parts and come down in ranges, several requests at a
// time; a file that is read in order is read ahead. Threads may share it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "io/files/file.h"
#include "objects/packed.h"
#include "objects/store.h"

namespace longhaul::objects {

// "s3://bucket/some/prefix", the bucket by Amazon's rules for names, no empty parts, no slash at
// the end.
struct ObjectPath {
  std::string bucket;
  std::string key;  // empty: the bucket itself
};
bool IsObjectPath(std::string_view path);  // by its beginning
Result<ObjectPath> ParseObjectPath(std::string_view path);

struct FilesOptions {
  size_t part_bytes = 16u << 20;  // of an upload, at least; the store wants 5 MiB or more
  // Under way at the same time, of all files together.
  size_t requests = 8;
  // A file that is read in order holds up to 4 windows that are read ahead, and a larger read is
  // cut into ranges of at least half of it. One that is written holds its next part and up to
  // 64 MiB of parts under way, or one part where parts are larger.
  size_t window_bytes = 8u << 20;
};
std::unique_ptr<io::FileSystem> ObjectFiles(std::unique_ptr<Store> store,
                                            const FilesOptions& options = {});

// Where checkpoints lie: a directory of the machine, or an object store's prefix. Packed shards
// (packed.h) are read as what they hold.
class Place {
 public:
  // Options for an object store come from the environment (store.h). Nothing is asked of it yet.
  static Result<Place> Open(const std::string& where, Packing packing = Packing::kReadOnly);

  io::FileSystem& files() const { return *packed_; }
  uint64_t packed_bytes() const { return packed_->packed_bytes(); }
  const std::string& path() const { return path_; }

 private:
  Place(std::unique_ptr<io::FileSystem> owned, std::unique_ptr<PackedFiles> packed,
        std::string path)
      : owned_(std::move(owned)), packed_(std::move(packed)), path_(std::move(path)) {}

  std::unique_ptr<io::FileSystem> owned_;
  std::unique_ptr<PackedFiles> packed_;  // over it, or over the machine's
  std::string path_;
};

}  // namespace longhaul::objects
