#include "profiler/read/byte_source.h"

#include <fcntl.h>
#include <isa-l.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "io/fd.h"

namespace longhaul::profiler {
namespace {

constexpr size_t kInputBuffer = 256 << 10;
// Up to so many bytes any ratio is allowed, because small files of repeated text compress very
// well.
constexpr uint64_t kRatioFreeBytes = 64 << 20;

class FileSource : public ByteSource {
 public:
  FileSource(io::Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Result<size_t> Read(std::span<char> buffer) override {
    for (;;) {
      const ssize_t got = read(fd_.get(), buffer.data(), buffer.size());
      if (got >= 0) {
        bytes_ += static_cast<uint64_t>(got);
        return static_cast<size_t>(got);
      }
      if (errno != EINTR) return FromErrno(errno, "cannot read " + path_);
    }
  }
  uint64_t file_bytes() const override { return bytes_; }

 private:
  io::Fd fd_;
  std::string path_;
  uint64_t bytes_ = 0;
};

class TextSource : public ByteSource {
 public:
  explicit TextSource(std::string_view text) : text_(text) {}

  Result<size_t> Read(std::span<char> buffer) override {
    const size_t size = std::min(buffer.size(), text_.size() - at_);
    if (size > 0) std::memcpy(buffer.data(), text_.data() + at_, size);
    at_ += size;
    return size;
  }
  uint64_t file_bytes() const override { return at_; }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

// What the decompressors share: input in a buffer, and the limits.
class Decompressor : public ByteSource {
 public:
  Decompressor(std::unique_ptr<ByteSource> inner, std::vector<char> head, SourceLimits limits)
      : limits_(limits), inner_(std::move(inner)), buffer_(kInputBuffer) {
    size_ = head.size();
    std::copy(head.begin(), head.end(), buffer_.begin());
  }
  uint64_t file_bytes() const override { return inner_->file_bytes(); }

 protected:
  // Makes sure that there is input; false at the end of it.
  Result<bool> Fill() {
    if (at_ < size_) return true;
    at_ = 0;
    ASSIGN_OR_RETURN(size_, inner_->Read(buffer_));
    return size_ > 0;
  }
  // Limits against files that decompress to far more than their size.
  Status Count(size_t produced) {
    out_ += produced;
    if (out_ > limits_.max_bytes) {
      return ResourceExhausted("the trace holds more than " + std::to_string(limits_.max_bytes) +
                               " bytes when decompressed");
    }
    if (out_ > kRatioFreeBytes && out_ / limits_.max_ratio > inner_->file_bytes()) {
      return ResourceExhausted("the trace decompresses to more than " +
                               std::to_string(limits_.max_ratio) + " times its size");
    }
    return {};
  }

  SourceLimits limits_;
  std::unique_ptr<ByteSource> inner_;
  std::vector<char> buffer_;
  size_t at_ = 0;
  size_t size_ = 0;
  uint64_t out_ = 0;
};

class GzipSource : public Decompressor {
 public:
  GzipSource(std::unique_ptr<ByteSource> inner, std::vector<char> head, SourceLimits limits)
      : Decompressor(std::move(inner), std::move(head), limits),
        state_(std::make_unique<inflate_state>()) {
    Begin();
  }

  Result<size_t> Read(std::span<char> buffer) override {
    for (;;) {
      ASSIGN_OR_RETURN(const bool more, Fill());
      if (state_->block_state == ISAL_BLOCK_FINISH) {
        // Another member may follow; zeros that pad a tape end it.
        if (!more || static_cast<unsigned char>(buffer_[at_]) != 0x1f) return size_t{0};
        Begin();
      }
      state_->next_in = reinterpret_cast<uint8_t*>(buffer_.data() + at_);
      state_->avail_in = static_cast<uint32_t>(size_ - at_);
      state_->next_out = reinterpret_cast<uint8_t*>(buffer.data());
      const size_t room = std::min(buffer.size(), size_t{1} << 30);
      state_->avail_out = static_cast<uint32_t>(room);
      const int error = isal_inflate(state_.get());
      at_ = size_ - state_->avail_in;
      if (error < 0) {
        return DataLoss("damaged gzip data near byte " + std::to_string(file_bytes()) +
                        " of the file (isal_inflate " + std::to_string(error) + ")");
      }
      const size_t produced = room - state_->avail_out;
      RETURN_IF_ERROR(Count(produced));
      if (produced > 0) return produced;
      if (!more) return DataLoss("the gzip data ends too early");
    }
  }

 private:
  void Begin() {
    isal_inflate_init(state_.get());
    state_->crc_flag = ISAL_GZIP;
  }

  std::unique_ptr<inflate_state> state_;  // 80 KiB of tables
};

class ZstdSource : public Decompressor {
 public:
  ZstdSource(std::unique_ptr<ByteSource> inner, std::vector<char> head, SourceLimits limits)
      : Decompressor(std::move(inner), std::move(head), limits),
        stream_(ZSTD_createDStream(), &ZSTD_freeDStream) {
    // A window of 128 MiB at most: what one frame may cost in memory.
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, 27);
  }

  Result<size_t> Read(std::span<char> buffer) override {
    for (;;) {
      ASSIGN_OR_RETURN(const bool more, Fill());
      ZSTD_inBuffer in = {buffer_.data(), size_, at_};
      ZSTD_outBuffer out = {buffer.data(), buffer.size(), 0};
      const size_t left = ZSTD_decompressStream(stream_.get(), &out, &in);
      at_ = in.pos;
      if (ZSTD_isError(left)) {
        return DataLoss("damaged zstd data near byte " + std::to_string(file_bytes()) +
                        " of the file: " + ZSTD_getErrorName(left));
      }
      RETURN_IF_ERROR(Count(out.pos));
      if (out.pos > 0) {
        whole_ = left == 0;
        return out.pos;
      }
      if (!more) {
        if (whole_ || left == 0) return size_t{0};
        return DataLoss("the zstd data ends too early");
      }
    }
  }

 private:
  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream_;
  bool whole_ = false;
};

// Returns the bytes again that were read to detect the format.
class PlainSource : public Decompressor {
 public:
  using Decompressor::Decompressor;

  Result<size_t> Read(std::span<char> buffer) override {
    if (at_ == size_) return inner_->Read(buffer);
    const size_t size = std::min(buffer.size(), size_ - at_);
    std::memcpy(buffer.data(), buffer_.data() + at_, size);
    at_ += size;
    return size;
  }
};

Result<std::unique_ptr<ByteSource>> Detect(std::unique_ptr<ByteSource> inner,
                                           const SourceLimits& limits) {
  // A source may return fewer bytes than requested, so the magic number is read in a loop. Formats
  // are detected by content and not by the file's name.
  std::vector<char> head(4);
  size_t size = 0;
  while (size < head.size()) {
    ASSIGN_OR_RETURN(const size_t got, inner->Read(std::span(head).subspan(size)));
    if (got == 0) break;
    size += got;
  }
  head.resize(size);
  const std::string_view magic(head.data(), size);
  std::unique_ptr<ByteSource> source;
  if (magic.starts_with("\x1f\x8b")) {
    source = std::make_unique<GzipSource>(std::move(inner), std::move(head), limits);
  } else if (magic == "\x28\xb5\x2f\xfd") {
    source = std::make_unique<ZstdSource>(std::move(inner), std::move(head), limits);
  } else {
    source = std::make_unique<PlainSource>(std::move(inner), std::move(head), limits);
  }
  return source;
}

}  // namespace

std::unique_ptr<ByteSource> OpenBytes(std::string_view bytes, const SourceLimits& limits) {
  return Detect(std::make_unique<TextSource>(bytes), limits).value();
}

Result<std::unique_ptr<ByteSource>> OpenFile(const std::string& path, const SourceLimits& limits) {
  io::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return FromErrno(errno, "cannot open " + path);
  struct stat info = {};
  if (fstat(fd.get(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return InvalidArgument(path + " is a folder, not a trace");
  }
  return Detect(std::make_unique<FileSource>(std::move(fd), path), limits);
}

}  // namespace longhaul::profiler
