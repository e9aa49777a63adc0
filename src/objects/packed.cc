#include "objects/packed.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "base/check.h"
#include "objects/packed_format.h"

namespace longhaul::objects {
namespace {

constexpr std::string_view kShard = ".safetensors";
constexpr std::string_view kTemporary = ".tmp";
constexpr std::string_view kPacked = ".zst";

class PackedReader final : public io::ReadableFile {
 public:
  PackedReader(std::string path, std::unique_ptr<io::ReadableFile> file,
               std::vector<PackedBlock> blocks)
      : path_(std::move(path)), file_(std::move(file)), blocks_(std::move(blocks)) {
    uint64_t stored_at = 0;
    for (const PackedBlock& block : blocks_) {
      at_.push_back({bytes_, stored_at});
      bytes_ += block.bytes;
      stored_at += block.stored;
    }
  }

  uint64_t bytes() const override { return bytes_; }

  Status Read(uint64_t offset, std::span<std::byte> to) const override {
    if (offset > bytes_ || to.size() > bytes_ - offset) {
      return DataLoss(path_ + " ends before byte " + std::to_string(offset + to.size()));
    }
    const std::lock_guard lock(mutex_);
    while (!to.empty()) {
      const auto after = std::upper_bound(
          at_.begin(), at_.end(), offset,
          [](uint64_t wanted, const Place& place) { return wanted < place.offset; });
      const auto index = static_cast<size_t>(after - at_.begin()) - 1;
      const uint64_t skip = offset - at_[index].offset;
      const size_t take = std::min<uint64_t>(to.size(), blocks_[index].bytes - skip);
      if (take == blocks_[index].bytes) {
        RETURN_IF_ERROR(Unpack(index, to.first(take)));
      } else {
        if (held_ != index) {
          held_ = SIZE_MAX;
          block_.resize(blocks_[index].bytes);
          RETURN_IF_ERROR(Unpack(index, block_));
          held_ = index;
        }
        std::copy_n(block_.begin() + static_cast<std::ptrdiff_t>(skip), take, to.begin());
      }
      offset += take;
      to = to.subspan(take);
    }
    return {};
  }

 private:
  struct Place {
    uint64_t offset = 0;     // of a block in the file
    uint64_t stored_at = 0;  // of its frame
  };

  Status Unpack(size_t index, std::span<std::byte> to) const {
    stored_.resize(blocks_[index].stored);
    RETURN_IF_ERROR(file_->Read(at_[index].stored_at, stored_));
    const Status unpacked = unpacker_.Unpack(blocks_[index], stored_, to);
    if (unpacked.ok()) return {};
    return unpacked.WithContext(path_ + ", block " + std::to_string(index));
  }

  const std::string path_;
  const std::unique_ptr<io::ReadableFile> file_;
  const std::vector<PackedBlock> blocks_;
  std::vector<Place> at_;
  uint64_t bytes_ = 0;

  mutable std::mutex mutex_;
  mutable Unpacker unpacker_;
  mutable std::vector<std::byte> stored_;
  mutable std::vector<std::byte> block_;  // the one that was last read in part
  mutable size_t held_ = SIZE_MAX;        // its index
};

class PackedWriter final : public io::WritableFile {
 public:
  PackedWriter(std::unique_ptr<io::WritableFile> file, PackHooks hooks)
      : file_(std::move(file)), hooks_(std::move(hooks)) {}

  Status Append(std::span<const std::byte> bytes) override {
    if (ended_) return FailedPrecondition("a packed file can't grow once it is whole");
    for (size_t at = 0; at < bytes.size(); at += kPackedBlockBytes) {
      const auto packed =
          packer_.Pack(bytes.subspan(at, std::min(kPackedBlockBytes, bytes.size() - at)));
      RETURN_IF_ERROR(file_->Append(packed.stored));
      blocks_.push_back(packed.block);
      if (hooks_.wrote) hooks_.wrote(packed.stored.size());
    }
    return {};
  }

  Status Sync() override {
    if (!ended_) {
      const std::string end = EncodePackedEnd(blocks_);
      RETURN_IF_ERROR(file_->Append(std::as_bytes(std::span(end))));
      ended_ = true;
    }
    RETURN_IF_ERROR(file_->Sync());
    return hooks_.whole ? hooks_.whole() : Status();
  }

  Status Close() override {
    if (!ended_) RETURN_IF_ERROR(Sync());
    return file_->Close();
  }

 private:
  const std::unique_ptr<io::WritableFile> file_;
  const PackHooks hooks_;
  Packer packer_;
  std::vector<PackedBlock> blocks_;
  bool ended_ = false;
};

Result<PackedTrailer> ReadTrailer(const io::ReadableFile& file) {
  std::vector<std::byte> end(std::min<uint64_t>(kPackedTrailerBytes, file.bytes()));
  RETURN_IF_ERROR(file.Read(file.bytes() - end.size(), end));
  return ParsePackedTrailer(end, file.bytes());
}

bool IsAbsent(const Status& status) { return status.code() == Code::kNotFound; }

}  // namespace

Result<std::unique_ptr<io::ReadableFile>> OpenPacked(io::FileSystem& files,
                                                     const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file, files.Open(path));
  const Result<PackedTrailer> trailer = ReadTrailer(*file);
  if (!trailer.ok()) return trailer.status().WithContext(path);
  std::vector<std::byte> table(trailer->blocks * kPackedEntryBytes);
  RETURN_IF_ERROR(file->Read(trailer->stored, table));
  Result<std::vector<PackedBlock>> blocks = ParsePackedTable(table, *trailer);
  if (!blocks.ok()) return blocks.status().WithContext(path);
  return std::unique_ptr<io::ReadableFile>(
      std::make_unique<PackedReader>(path, std::move(file), std::move(blocks).value()));
}

std::unique_ptr<io::WritableFile> PackInto(std::unique_ptr<io::WritableFile> file,
                                           PackHooks hooks) {
  return std::make_unique<PackedWriter>(std::move(file), std::move(hooks));
}

bool PackedFiles::CanBePacked(std::string_view path) {
  if (path.ends_with(kTemporary)) path.remove_suffix(kTemporary.size());
  return path.ends_with(kShard);
}

// A packed one is read as any: its frames aren't where a disk's blocks begin.
Result<std::unique_ptr<io::ReadableFile>> PackedFiles::OpenBulk(const std::string& path) {
  Result<std::unique_ptr<io::ReadableFile>> plain = under_.OpenBulk(path);
  if (plain.ok() || !IsAbsent(plain.status())) return plain;
  return Open(path);
}

Result<std::unique_ptr<io::ReadableFile>> PackedFiles::Open(const std::string& path) {
  Result<std::unique_ptr<io::ReadableFile>> plain = under_.Open(path);
  if (plain.ok() || !IsAbsent(plain.status()) || !CanBePacked(path)) return plain;
  Result<std::unique_ptr<io::ReadableFile>> packed = OpenPacked(under_, PackedPath(path));
  return IsAbsent(packed.status()) ? std::move(plain) : std::move(packed);
}

// An unpacked one of the name would be read instead: it goes once this one is there. Where files
// have temporary names first, that is when it gets its own.
std::unique_ptr<io::WritableFile> PackedFiles::Pack(const std::string& path,
                                                    std::unique_ptr<io::WritableFile> file) {
  PackHooks hooks;
  hooks.wrote = [count = packed_bytes_](uint64_t bytes) { *count += bytes; };
  if (appears_whole()) {
    hooks.whole = [this, path] {
      const Status removed = under_.Remove(path);
      return IsAbsent(removed) ? Status() : removed;
    };
  }
  return PackInto(std::move(file), std::move(hooks));
}

Result<std::unique_ptr<io::WritableFile>> PackedFiles::Create(const std::string& path) {
  if (packing_ == Packing::kReadOnly || !CanBePacked(path)) return under_.Create(path);
  ASSIGN_OR_RETURN(auto file, under_.Create(PackedPath(path)));
  return Pack(path, std::move(file));
}

Result<std::unique_ptr<io::WritableFile>> PackedFiles::CreateBulk(const std::string& path,
                                                                  uint64_t bytes) {
  if (packing_ == Packing::kReadOnly || !CanBePacked(path)) return under_.CreateBulk(path, bytes);
  // At most: blocks that don't become smaller are kept as they are.
  const uint64_t blocks = bytes / kPackedBlockBytes + 1;
  const uint64_t most = bytes + blocks * kPackedEntryBytes + kPackedTrailerBytes;
  ASSIGN_OR_RETURN(auto file, under_.CreateBulk(PackedPath(path), most));
  return Pack(path, std::move(file));
}

Result<std::vector<std::byte>> PackedFiles::ReadAll(const std::string& path, uint64_t limit) {
  Result<std::vector<std::byte>> plain = under_.ReadAll(path, limit);
  if (plain.ok() || !IsAbsent(plain.status()) || !CanBePacked(path)) return plain;
  const Result<std::unique_ptr<io::ReadableFile>> packed = OpenPacked(under_, PackedPath(path));
  if (!packed.ok()) return IsAbsent(packed.status()) ? plain.status() : packed.status();
  if ((*packed)->bytes() > limit) {
    return ResourceExhausted(path + " has over " + std::to_string(limit) + " bytes");
  }
  std::vector<std::byte> all((*packed)->bytes());
  RETURN_IF_ERROR((*packed)->Read(0, all));
  return all;
}

Result<uint64_t> PackedFiles::Size(const std::string& path) {
  Result<uint64_t> plain = under_.Size(path);
  if (plain.ok() || !IsAbsent(plain.status()) || !CanBePacked(path)) return plain;
  const auto file = under_.Open(PackedPath(path));
  if (!file.ok()) return IsAbsent(file.status()) ? plain.status() : file.status();
  const Result<PackedTrailer> trailer = ReadTrailer(**file);
  if (!trailer.ok()) return trailer.status().WithContext(PackedPath(path));
  return trailer->bytes;
}

Status PackedFiles::Rename(const std::string& from, const std::string& to) {
  if (packing_ == Packing::kReadOnly || !CanBePacked(from) || !CanBePacked(to)) {
    return under_.Rename(from, to);
  }
  RETURN_IF_ERROR(under_.Rename(PackedPath(from), PackedPath(to)));
  const Status removed = under_.Remove(to);
  return IsAbsent(removed) ? Status() : removed;
}

Status PackedFiles::Remove(const std::string& path) {
  const Status plain = under_.Remove(path);
  if (!CanBePacked(path)) return plain;
  if (!plain.ok() && !IsAbsent(plain)) return plain;
  const Status packed = under_.Remove(PackedPath(path));
  return IsAbsent(packed) ? plain : packed;
}

Result<std::vector<std::string>> PackedFiles::List(const std::string& path) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, under_.List(path));
  for (std::string& name : names) {
    const std::string_view whole = name;
    if (!whole.ends_with(kPacked)) continue;
    const std::string_view rest = whole.substr(0, whole.size() - kPacked.size());
    if (CanBePacked(rest)) name = std::string(rest);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace longhaul::objects
