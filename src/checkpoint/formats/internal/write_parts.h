// Functions and classes that the writers of several formats share.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/pickle/pickle_writer.h"
#include "base/status.h"
#include "checkpoint/formats/catalog.h"
#include "checkpoint/formats/catalog_reader.h"
#include "checkpoint/formats/write_checkpoint.h"
#include "io/files/patchable_file.h"

namespace longhaul::checkpoint::internal {

inline constexpr uint64_t kStreamBytes = 8 << 20;  // read at a time from a tensor; whole chunks

// Streams a catalog's tensors, and counts progress.
class TensorStream {
 public:
  TensorStream(io::FileSystem& files, const Catalog& catalog, const WriteOptions& options)
      : catalog_(catalog), reader_(files, catalog), options_(options) {
    total_ = catalog.TotalBytes();
  }

  // Calls `take` with all bytes of a tensor, in order.
  Status Each(uint32_t tensor, const std::function<Status(std::span<const std::byte>)>& take);

 private:
  const Catalog& catalog_;
  CatalogReader reader_;
  const WriteOptions& options_;
  std::vector<std::byte> buffer_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

// Pickles the tensor as torch.save does, over the whole of storage `key`.
void PickleTensor(const TensorInfo& tensor, const std::string& key, PickleWriter& writer);
// Pickles a tree; calls `tensor` for each tensor that it names.
void PickleTree(const Tree& node, const std::function<void(uint32_t)>& tensor,
                PickleWriter& writer);

Status WriteSafetensors(io::FileSystem& files, const Catalog& catalog, TensorStream& stream,
                        const std::string& path, const WriteOptions& options);
Status WriteTorch(const Catalog& catalog, TensorStream& stream, const std::string& path);
Status WriteDistributed(io::FileSystem& files, const Catalog& catalog, TensorStream& stream,
                        const std::string& path, const WriteOptions& options);
Status WriteLonghaul(io::FileSystem& files, const Catalog& catalog, TensorStream& stream,
                     const std::string& path, const WriteOptions& options);

// Syncs and closes.
Status Finish(io::PatchableFile& file);

// A file or folder with the temporary name "PATH.partial" until it is complete. The destructor
// removes it unless Keep was called.
class Partial {
 public:
  // Returns kAlreadyExists when `path` exists.
  static Result<Partial> Begin(io::FileSystem& files, std::string path, bool folder);
  Partial(Partial&& other) noexcept;
  Partial& operator=(Partial&&) = delete;
  ~Partial();

  const std::string& path() const { return partial_; }
  // Renames it and syncs its parent folder.
  Status Keep();

 private:
  Partial(io::FileSystem& files, std::string path, bool folder);
  void Remove();

  io::FileSystem* files_;
  std::string path_;
  std::string partial_;
  bool folder_;
};

}  // namespace longhaul::checkpoint::internal
