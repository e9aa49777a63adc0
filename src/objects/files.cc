#include "objects/files.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"
#include "io/clock.h"
#include "io/files/direct_file.h"
#include "objects/transfers.h"

namespace longhaul::objects {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr uint64_t kMaxParts = 10'000;  // the protocol's
constexpr size_t kLeastAhead = 64u << 10;
constexpr size_t kMostWindows = 4;            // under way for one file
constexpr size_t kMostUploading = 64u << 20;  // bytes of one file

bool IsReady(const std::future<Status>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

class Reader final : public io::ReadableFile {
 public:
  Reader(std::shared_ptr<Store> store, std::shared_ptr<Transfers> transfers, ObjectPath path,
         Store::Facts facts, size_t most_ahead)
      : store_(std::move(store)),
        transfers_(std::move(transfers)),
        path_(std::move(path)),
        facts_(std::move(facts)),
        most_ahead_(most_ahead) {}
  ~Reader() override { Forget(); }

  uint64_t bytes() const override { return facts_.bytes; }

  Status Read(uint64_t offset, std::span<std::byte> to) const override {
    if (offset > facts_.bytes || to.size() > facts_.bytes - offset) {
      return DataLoss("s3://" + path_.bucket + "/" + path_.key + " ends before byte " +
                      std::to_string(offset + to.size()));
    }
    const std::lock_guard lock(mutex_);
    while (!to.empty()) {
      while (!windows_.empty() && windows_.front()->end() <= offset) windows_.pop_front();
      if (windows_.empty() || offset < windows_.front()->begin) {
        Forget();
        ahead_ = offset == next_ ? std::min(ahead_ * 2, most_ahead_) : kLeastAhead;
        next_ = offset + to.size();
        if (to.size() >= ahead_) return ReadRanges(offset, to);
        LookAhead(offset);
      }
      const Status read = windows_.front()->Wait();
      if (!read.ok()) {
        Forget();
        return read;
      }
      const Window& window = *windows_.front();
      const size_t take = std::min<uint64_t>(to.size(), window.end() - offset);
      std::memcpy(to.data(), window.bytes.data() + (offset - window.begin), take);
      offset += take;
      to = to.subspan(take);
      next_ = offset;
      // Who has come this far in order will continue.
      if (ahead_ == most_ahead_) LookAhead(windows_.back()->end());
    }
    return {};
  }

 private:
  // A piece of the file that is read ahead.
  struct Window {
    uint64_t begin = 0;
    std::vector<std::byte> bytes;
    std::future<Status> reading;
    Status read;

    uint64_t end() const { return begin + bytes.size(); }
    Status Wait() {
      if (reading.valid()) read = reading.get();
      return read;
    }
  };

  Status Get(uint64_t offset, std::span<std::byte> to) const {
    return store_->GetRange(path_.bucket, path_.key, facts_.tag, offset, to);
  }

  // Starts windows from `offset` on: one, or as many as may be where the file is read in order.
  void LookAhead(uint64_t offset) const {
    const size_t most =
        ahead_ == most_ahead_ ? std::min(kMostWindows, transfers_->requests()) : size_t{1};
    // Those that were read stay until they are passed.
    while (windows_.size() < most && offset < facts_.bytes) {
      auto window = std::make_unique<Window>();
      window->begin = offset;
      window->bytes.resize(std::min<uint64_t>(ahead_, facts_.bytes - offset));
      offset = window->end();
      window->reading = transfers_->Start(
          [this, to = window.get()] { return Get(to->begin, std::span(to->bytes)); });
      windows_.push_back(std::move(window));
    }
  }

  void Forget() const {
    for (const std::unique_ptr<Window>& window : windows_) (void)window->Wait();
    windows_.clear();
  }

  // Into the caller's memory, in several requests where it is large.
  Status ReadRanges(uint64_t offset, std::span<std::byte> to) const {
    const size_t ranges =
        std::clamp<size_t>(to.size() / (most_ahead_ / 2), 1, transfers_->requests());
    if (ranges == 1) return Get(offset, to);
    const size_t range = to.size() / ranges + 1;
    std::vector<std::future<Status>> reading;
    for (size_t at = 0; at < to.size(); at += range) {
      const std::span<std::byte> part = to.subspan(at, std::min(range, to.size() - at));
      reading.push_back(
          transfers_->Start([this, from = offset + at, part] { return Get(from, part); }));
    }
    Status first;
    for (std::future<Status>& each : reading) {
      const Status read = each.get();  // of all of them: they write into `to`
      if (first.ok()) first = read;
    }
    return first;
  }

  const std::shared_ptr<Store> store_;
  const std::shared_ptr<Transfers> transfers_;
  const ObjectPath path_;
  const Store::Facts facts_;
  const size_t most_ahead_;  // requests, for a reader in order
  mutable std::mutex mutex_;
  mutable std::deque<std::unique_ptr<Window>> windows_;  // by begin, without gaps
  mutable uint64_t next_ = 0;                            // the end of the last read
  mutable size_t ahead_ = kLeastAhead;
};

class Writer final : public io::WritableFile {
 public:
  Writer(std::shared_ptr<Store> store, std::shared_ptr<Transfers> transfers, ObjectPath path,
         size_t part_bytes)
      : store_(std::move(store)),
        transfers_(std::move(transfers)),
        path_(std::move(path)),
        part_bytes_(part_bytes),
        most_parts_(std::max<size_t>(1, kMostUploading / part_bytes)) {}
  ~Writer() override {
    (void)Settle(0);
    // The store would keep, and charge for, parts that are never completed.
    if (!upload_.empty() && !done_) {
      (void)store_->AbortParts(path_.bucket, path_.key, upload_);
    }
  }

  Status Append(std::span<const std::byte> bytes) override {
    if (done_) return FailedPrecondition("an object can't grow once it is there");
    while (!bytes.empty()) {
      // A whole part is kept until more comes: a file of one part is one request.
      if (part_.size() == part_bytes_) RETURN_IF_ERROR(SendPart());
      const size_t take = std::min(bytes.size(), part_bytes_ - part_.size());
      // Once, for all of the part, where it is not a small file.
      if (part_.size() + take > (1u << 20)) part_.reserve(part_bytes_);
      part_.insert(part_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(take));
      bytes = bytes.subspan(take);
    }
    return {};
  }

  // Whole parts are sent from where they lie.
  Status AppendStable(std::span<const std::byte> bytes) override {
    if (done_) return FailedPrecondition("an object can't grow once it is there");
    while (!bytes.empty()) {
      if (part_.size() == part_bytes_) RETURN_IF_ERROR(SendPart());
      const bool goes_on = !upload_.empty() || bytes.size() > part_bytes_;
      if (part_.empty() && bytes.size() >= part_bytes_ && goes_on) {
        auto part = std::make_unique<Part>();
        part->bytes = bytes.first(part_bytes_);
        RETURN_IF_ERROR(Start(std::move(part)));
        bytes = bytes.subspan(part_bytes_);
      } else {
        const size_t take = std::min(bytes.size(), part_bytes_ - part_.size());
        RETURN_IF_ERROR(Append(bytes.first(take)));
        bytes = bytes.subspan(take);
      }
    }
    return {};
  }

  Status Sync() override {
    if (done_) return {};
    if (upload_.empty()) {
      RETURN_IF_ERROR(store_->Put(path_.bucket, path_.key, part_));
    } else {
      if (!part_.empty()) RETURN_IF_ERROR(SendPart());
      RETURN_IF_ERROR(Settle(0));
      RETURN_IF_ERROR(store_->CompleteParts(path_.bucket, path_.key, upload_, tags_));
    }
    done_ = true;
    return {};
  }

  Status Close() override { return Sync(); }

 private:
  struct Part {
    std::vector<std::byte> owned;  // what `bytes` is, unless it is the caller's
    std::span<const std::byte> bytes;
    std::string tag;
    std::future<Status> sent;
  };

  Status SendPart() {
    auto part = std::make_unique<Part>();
    part->owned = std::exchange(part_, {});
    part->bytes = part->owned;
    return Start(std::move(part));
  }

  Status Start(std::unique_ptr<Part> part) {
    RETURN_IF_ERROR(Settle(most_parts_ - 1));
    while (!sending_.empty() && IsReady(sending_.front()->sent)) {
      RETURN_IF_ERROR(Settle(sending_.size() - 1));
    }
    if (upload_.empty()) {
      ASSIGN_OR_RETURN(upload_, store_->BeginParts(path_.bucket, path_.key));
    }
    const auto number = static_cast<uint32_t>(tags_.size() + sending_.size() + 1);
    part->sent = transfers_->Start([this, number, to = part.get()]() -> Status {
      ASSIGN_OR_RETURN(to->tag,
                       store_->PutPart(path_.bucket, path_.key, upload_, number, to->bytes));
      return {};
    });
    sending_.push_back(std::move(part));
    return {};
  }

  // Waits until at most so many parts are under way; the first failure of any part stays.
  Status Settle(size_t parts) {
    while (sending_.size() > parts) {
      const std::unique_ptr<Part> part = std::move(sending_.front());
      sending_.pop_front();
      const Status sent = part->sent.get();
      if (failure_.ok()) failure_ = sent;
      tags_.push_back(std::move(part->tag));
      // Its memory serves for the next one.
      if (part_.capacity() == 0) {
        part_ = std::move(part->owned);
        part_.clear();
      }
    }
    return failure_;
  }

  const std::shared_ptr<Store> store_;
  const std::shared_ptr<Transfers> transfers_;
  const ObjectPath path_;
  const size_t part_bytes_;
  const size_t most_parts_;  // under way
  std::vector<std::byte> part_;
  std::string upload_;  // empty: everything still fits into one request
  std::deque<std::unique_ptr<Part>> sending_;
  std::vector<std::string> tags_;  // of those before them
  Status failure_;
  bool done_ = false;
};

class Files final : public io::FileSystem {
 public:
  Files(std::unique_ptr<Store> store, const FilesOptions& options)
      : store_(std::move(store)),
        transfers_(std::make_shared<Transfers>(options.requests)),
        part_bytes_(options.part_bytes),
        window_bytes_(std::max(options.window_bytes, kLeastAhead)) {}

  bool appears_whole() const override { return true; }

  Result<std::unique_ptr<io::ReadableFile>> Open(const std::string& path) override {
    ASSIGN_OR_RETURN(ObjectPath object, ParseObjectPath(path));
    ASSIGN_OR_RETURN(Store::Facts facts, store_->Head(object.bucket, object.key));
    return std::unique_ptr<io::ReadableFile>(std::make_unique<Reader>(
        store_, transfers_, std::move(object), std::move(facts), window_bytes_));
  }
  Result<std::unique_ptr<io::WritableFile>> Create(const std::string& path) override {
    return CreateBulk(path, 0);
  }
  Result<std::unique_ptr<io::WritableFile>> CreateBulk(const std::string& path,
                                                       uint64_t bytes) override {
    ASSIGN_OR_RETURN(ObjectPath object, ParseObjectPath(path));
    const uint64_t least = bytes / kMaxParts + 1;
    return std::unique_ptr<io::WritableFile>(std::make_unique<Writer>(
        store_, transfers_, std::move(object), std::max<uint64_t>(part_bytes_, least)));
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
  const std::shared_ptr<Transfers> transfers_;
  const size_t part_bytes_;
  const size_t window_bytes_;
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

std::unique_ptr<io::FileSystem> ObjectFiles(std::unique_ptr<Store> store,
                                            const FilesOptions& options) {
  return std::make_unique<Files>(std::move(store), options);
}

Result<Place> Place::Open(const std::string& where, Packing packing) {
  std::string path = where;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (!IsObjectPath(path)) {
    auto packed = std::make_unique<PackedFiles>(io::SharedDirectFileSystem(), packing);
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
