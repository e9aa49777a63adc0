// An object store behind the file interface, so that the checkpoint code also works there.
//
// Paths are s3://BUCKET/KEY. An object appears whole when its file is synced, or not at all
// (`appears_whole`), so no file needs a temporary name, and renaming is not supported. Directories
// exist only as slashes in keys: making, removing and syncing them does nothing, and one without
// objects is absent. Large files are uploaded in parts and downloaded in ranges, several requests
// at a time; a file that is read in order is read ahead. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "io/files/file.h"
#include "objects/packed.h"
#include "objects/store.h"

namespace longhaul::objects {

// "s3://bucket/some/prefix": the bucket follows Amazon's rules for names; no part is empty, and
// there is no slash at the end.
struct ObjectPath {
  std::string bucket;
  std::string key;  // empty: the bucket itself
};
bool IsObjectPath(std::string_view path);  // by its beginning
Result<ObjectPath> ParseObjectPath(std::string_view path);

struct FilesOptions {
  size_t part_bytes = 16u << 20;  // of an upload, at least; the store requires 5 MiB or more
  // Requests in progress at the same time, for all files together.
  size_t requests = 8;
  // A file that is read in order holds up to 4 windows that are read ahead, and a larger read is
  // divided into ranges of at least half a window. A file that is written holds its next part and
  // up to 64 MiB of parts in transfer, or one part where parts are larger.
  size_t window_bytes = 8u << 20;
};
std::unique_ptr<io::FileSystem> ObjectFiles(std::unique_ptr<Store> store,
                                            const FilesOptions& options = {});

// The location of checkpoints: a directory of the machine, or an object store's prefix. Packed
// shards (packed.h) are read as the files that they contain.
class Place {
 public:
  // The environment gives an object store's options (store.h). Open sends no request.
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
