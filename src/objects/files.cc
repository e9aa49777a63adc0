#include "objects/files.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "io/direct/direct_file.h"

namespace longhaul::objects {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr uint64_t kMaxParts = 10'000;   // the protocol's
constexpr size_t kMostAhead = 8u << 20;  // read at once for who reads in order
constexpr size_t kLeastAhead = 64u << 10;

class Reader final : public io::ReadableFile {
 public:
  Reader(std::shared_ptr<Store> store, ObjectPath path, Store::Facts facts)
      : store_(std::move(store)), path_(std::move(path)), facts_(std::move(facts)) {}

  uint64_t bytes() const override { return facts_.bytes; }

  Status Read(uint64_t offset, std::span<std::byte> to) const override {
    if (to.empty()) return {};
    if (offset > facts_.bytes || to.size() > facts_.bytes - offset) {
      return DataLoss("s3://" + path_.bucket + "/" + path_.key + " ends before byte " +
                      std::to_string(offset + to.size()));
    }
    const std::lock_guard lock(mutex_);
    if (!Holds(offset, to.size())) {
      const bool in_order = offset == begin_ + held_.size();
      ahead_ = in_order ? std::min(ahead_ * 2, kMostAhead) : kLeastAhead;
      if (to.size() >= ahead_) {
        begin_ = offset + to.size();  // of nothing: the next one in order goes on from here
        held_.clear();
        return store_->GetRange(path_.bucket, path_.key, facts_.tag, offset, to);
      }
      held_.resize(std::min<uint64_t>(ahead_, facts_.bytes - offset));
      begin_ = offset;
      const Status read =
          store_->GetRange(path_.bucket, path_.key, facts_.tag, begin_, std::span(held_));
      if (!read.ok()) {
        held_.clear();
        return read;
      }
    }
    std::memcpy(to.data(), held_.data() + (offset - begin_), to.size());
    return {};
  }

 private:
  bool Holds(uint64_t offset, size_t bytes) const {
    return offset >= begin_ && offset - begin_ <= held_.size() &&
           bytes <= held_.size() - (offset - begin_);
  }

  const std::shared_ptr<Store> store_;
  const ObjectPath path_;
  const Store::Facts facts_;
  mutable std::mutex mutex_;
  mutable uint64_t begin_ = 0;  // of what is held
  mutable std::vector<std::byte> held_;
  mutable size_t ahead_ = kLeastAhead;
};

class Writer final : public io::WritableFile {
 public:
  Writer(std::shared_ptr<Store> store, ObjectPath path, size_t part_bytes)
      : store_(std::move(store)), path_(std::move(path)), part_bytes_(part_bytes) {}
  ~Writer() override {
    // Parts that nobody puts together would be kept, and paid for.
    if (!upload_.empty() && !done_) {
      (void)store_->AbortParts(path_.bucket, path_.key, upload_);
    }
  }

  Status Append(std::span<const std::byte> bytes) override {
    if (done_) return FailedPrecondition("an object can't grow once it is there");
    while (!bytes.empty()) {
      const size_t take = std::min(bytes.size(), part_bytes_ - part_.size());
      part_.insert(part_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(take));
      bytes = bytes.subspan(take);
      if (part_.size() == part_bytes_) RETURN_IF_ERROR(SendPart());
    }
    return {};
  }

  Status Sync() override {
    if (done_) return {};
    if (upload_.empty()) {
      RETURN_IF_ERROR(store_->Put(path_.bucket, path_.key, part_));
    } else {
      if (!part_.empty()) RETURN_IF_ERROR(SendPart());
      RETURN_IF_ERROR(store_->CompleteParts(path_.bucket, path_.key, upload_, tags_));
    }
    done_ = true;
    return {};
  }

  Status Close() override { return Sync(); }

 private:
  Status SendPart() {
    if (upload_.empty()) {
      ASSIGN_OR_RETURN(upload_, store_->BeginParts(path_.bucket, path_.key));
    }
    ASSIGN_OR_RETURN(std::string tag,
                     store_->PutPart(path_.bucket, path_.key, upload_,
                                     static_cast<uint32_t>(tags_.size() + 1), part_));
    tags_.push_back(std::move(tag));
    part_.clear();
    return {};
  }

  const std::shared_ptr<Store> store_;
  const ObjectPath path_;
  const size_t part_bytes_;
  std::vector<std::byte> part_;
  std::string upload_;  // empty: everything still fits into one request
  std::vector<std::string> tags_;
  bool done_ = false;
};

class Files final : public io::FileSystem {
 public:
  Files(std::unique_ptr<Store> store, size_t part_bytes)
      : store_(std::move(store)), part_bytes_(part_bytes) {}

  bool appears_whole() const override { return true; }

  Result<std::unique_ptr<io::ReadableFile>> Open(const std::string& path) override {
    ASSIGN_OR_RETURN(ObjectPath object, ParseObjectPath(path));
    ASSIGN_OR_RETURN(Store::Facts facts, store_->Head(object.bucket, object.key));
    return std::unique_ptr<io::ReadableFile>(
        std::make_unique<Reader>(store_, std::move(object), std::move(facts)));
  }
  Result<std::unique_ptr<io::WritableFile>> Create(const std::string& path) override {
    return CreateBulk(path, 0);
  }
  Result<std::unique_ptr<io::WritableFile>> CreateBulk(const std::string& path,
                                                       uint64_t bytes) override {
    ASSIGN_OR_RETURN(ObjectPath object, ParseObjectPath(path));
    const uint64_t least = bytes / kMaxParts + 1;
    return std::unique_ptr<io::WritableFile>(std::make_unique<Writer>(
        store_, std::move(object), std::max<uint64_t>(part_bytes_, least)));
  }
  Result<std::vector<std::byte>> ReadAll(const std::string& path, uint64_t limit) override {
    ASSIGN_OR_RETURN(const ObjectPath object, ParseObjectPath(path));
    ASSIGN_OR_RETURN(const std::string text, store_->Get(object.bucket, object.key, limit));
    const auto bytes = std::as_bytes(std::span(text));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  }
  Result<uint64_t> Size(const std::string& path) override {
    ASSIGN_OR_RETURN(const ObjectPath object, ParseObjectPath(path));
    if (object.key.empty()) return NotFound(path + " is a bucket");
    ASSIGN_OR_RETURN(const Store::Facts facts, store_->Head(object.bucket, object.key));
    return facts.bytes;
  }
  Status Rename(const std::string& from, const std::string&) override {
    return Unimplemented(from + ": an object can't be renamed");
  }
  Status Remove(const std::string& path) override {
    ASSIGN_OR_RETURN(const ObjectPath object, ParseObjectPath(path));
    return store_->Remove(object.bucket, object.key);
  }
  Status RemoveDirectory(const std::string&) override { return {}; }
  Status MakeDirectories(const std::string&) override { return {}; }
  Status SyncDirectory(const std::string&) override { return {}; }
  Result<std::vector<std::string>> List(const std::string& path) override {
    ASSIGN_OR_RETURN(const ObjectPath object, ParseObjectPath(path));
    const std::string prefix = object.key.empty() ? "" : object.key + "/";
    ASSIGN_OR_RETURN(const Listing listing, store_->List(object.bucket, prefix));
    std::vector<std::string> names;
    const auto take = [&](std::string_view key) {
      if (!key.starts_with(prefix)) return;
      std::string_view name = key.substr(prefix.size());
      if (name.ends_with("/")) name.remove_suffix(1);
      // Of a hostile store: a name never leads out of its directory.
      const bool plain =
          !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos;
      if (plain) names.emplace_back(name);
    };
    for (const Listing::Object& each : listing.objects) take(each.key);
    for (const std::string& each : listing.prefixes) take(each);
    if (names.empty()) return NotFound(path + " holds nothing");
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }

 private:
  const std::shared_ptr<Store> store_;  // open files outlive nothing, but keep it
  const size_t part_bytes_;
};

}  // namespace

bool IsObjectPath(std::string_view path) { return path.starts_with(kScheme); }

Result<ObjectPath> ParseObjectPath(std::string_view path) {
  const auto wrong = [path](const std::string& why) {
    return InvalidArgument("not s3://BUCKET/PREFIX (" + why + "): " + Printable(path));
  };
  if (!IsObjectPath(path)) return wrong("another scheme");
  std::string_view rest = path.substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  ObjectPath parsed{std::string(rest.substr(0, slash)), ""};
  const bool named =
      parsed.bucket.size() >= 3 && parsed.bucket.size() <= 63 && parsed.bucket.front() != '.' &&
      parsed.bucket.front() != '-' &&
      std::all_of(parsed.bucket.begin(), parsed.bucket.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
      });
  if (!named) return wrong("a bucket has 3 to 63 of a-z, 0-9, '-' and '.'");
  if (slash == rest.size()) return parsed;
  parsed.key = std::string(rest.substr(slash + 1));
  for (const std::string_view part : Split(parsed.key, '/')) {
    if (part.empty() || part == "." || part == "..") return wrong("an empty part, '.' or '..'");
  }
  constexpr size_t kMaxKey = 1024;
  if (parsed.key.size() > kMaxKey) return wrong("over 1024 bytes");
  return parsed;
}

std::unique_ptr<io::FileSystem> ObjectFiles(std::unique_ptr<Store> store, size_t part_bytes) {
  return std::make_unique<Files>(std::move(store), part_bytes);
}

Result<Place> Place::Open(const std::string& where, Packing packing) {
  std::string path = where;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (!IsObjectPath(path)) {
    auto packed = std::make_unique<PackedFiles>(io::DirectFileSystem(), packing);
    return Place(nullptr, std::move(packed), std::move(path));
  }
  RETURN_IF_ERROR(ParseObjectPath(path).status());
  const auto variable = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  constexpr uint64_t kMaxCredentials = 1 << 20;
  const auto read = [](const std::string& file) { return io::ReadText(file, kMaxCredentials); };
  ASSIGN_OR_RETURN(const StoreOptions options, OptionsFrom(variable, read));
  auto store = std::make_unique<Store>(
      options, HttpTransport(options), [] { return io::Now(); },
      [](Duration pause) { std::this_thread::sleep_for(pause); });
  auto files = ObjectFiles(std::move(store));
  auto packed = std::make_unique<PackedFiles>(*files, packing);
  return Place(std::move(files), std::move(packed), std::move(path));
}

}  // namespace longhaul::objects
