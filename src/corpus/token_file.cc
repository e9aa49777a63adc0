#include "corpus/token_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/hash.h"

namespace longhaul::corpus {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char kMagic[8] = {'L', 'H', 'T', 'O', 'K', 'E', 'N', 'S'};
constexpr uint32_t kVersion = 1;

struct TokenHeader {
  char magic[8] = {};
  uint32_t version = kVersion;
  uint32_t vocabulary = 0;
  uint64_t count = 0;
  uint64_t hash = 0;
  uint8_t zero[32] = {};
};
static_assert(sizeof(TokenHeader) == kTokenHeaderBytes);

// A read-only mapping of a whole file, for as long as it is needed here.
class ReadMapping {
 public:
  ReadMapping(int fd, size_t bytes) : bytes_(bytes) {
    data_ = bytes == 0 ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  }
  ReadMapping(const ReadMapping&) = delete;
  ReadMapping& operator=(const ReadMapping&) = delete;
  ~ReadMapping() {
    if (valid()) munmap(data_, bytes_);
  }

  bool valid() const { return data_ != MAP_FAILED; }
  std::span<const std::byte> bytes() const { return {static_cast<std::byte*>(data_), bytes_}; }
  void* Release() { return std::exchange(data_, MAP_FAILED); }

 private:
  void* data_;
  size_t bytes_;
};

Status WriteAt(int fd, std::span<const std::byte> bytes, uint64_t offset, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FromErrno(errno, "cannot write " + path);
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return {};
}

uint64_t BytesOf(uint64_t tokens) { return kTokenHeaderBytes + 2 * tokens; }

}  // namespace

Result<std::span<const uint16_t>> ParseTokens(std::span<const std::byte> file) {
  TokenHeader header;
  if (file.size() < sizeof(header)) return DataLoss("token file has no whole header");
  std::memcpy(&header, file.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) return DataLoss("not a token file");
  if (header.version != kVersion) {
    return DataLoss("token file of version " + std::to_string(header.version));
  }
  if (header.count != (file.size() - sizeof(header)) / 2 || file.size() != BytesOf(header.count)) {
    return DataLoss("token file of " + std::to_string(file.size()) + " bytes says it has " +
                    std::to_string(header.count) + " tokens");
  }
  const std::span<const std::byte> bytes = file.subspan(sizeof(header));
  if (Hash64(bytes) != header.hash) return DataLoss("token file is damaged: its hash differs");
  const std::span tokens(reinterpret_cast<const uint16_t*>(bytes.data()), header.count);
  uint16_t highest = 0;
  for (const uint16_t token : tokens) highest = std::max(highest, token);
  if (!tokens.empty() && highest >= header.vocabulary) {
    return DataLoss("token " + std::to_string(highest) + " in a vocabulary of " +
                    std::to_string(header.vocabulary));
  }
  return tokens;
}

Result<TokenFile> TokenFile::Open(const std::string& path) {
  const io::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return FromErrno(errno, "cannot open " + path);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return FromErrno(errno, "cannot read " + path);
  if (!S_ISREG(info.st_mode)) return DataLoss(path + " is not a regular file");
  ReadMapping mapping(fd.get(), static_cast<size_t>(info.st_size));
  if (!mapping.valid()) {
    if (info.st_size == 0) return DataLoss(path + " is empty");
    return FromErrno(errno, "cannot map " + path);
  }
  const auto tokens = ParseTokens(mapping.bytes());
  if (!tokens.ok()) return tokens.status().WithContext(path);
  TokenFile file;
  std::memcpy(&file.hash_, mapping.bytes().data() + offsetof(TokenHeader, hash), sizeof(uint64_t));
  file.tokens_ = *tokens;
  file.mapped_bytes_ = mapping.bytes().size();
  file.mapping_ = mapping.Release();
  return file;
}

TokenFile::TokenFile(TokenFile&& other) noexcept { *this = std::move(other); }

TokenFile& TokenFile::operator=(TokenFile&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(tokens_, other.tokens_);
  std::swap(hash_, other.hash_);
  return *this;
}

TokenFile::~TokenFile() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
}

TokenWriter::TokenWriter(io::Fd fd, std::string path, uint32_t vocabulary)
    : fd_(std::move(fd)), path_(std::move(path)), vocabulary_(vocabulary) {}

Result<std::unique_ptr<TokenWriter>> TokenWriter::Create(const std::string& path,
                                                         uint32_t vocabulary) {
  const std::string temporary = path + ".tmp";
  io::Fd fd(open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return FromErrno(errno, "cannot create " + temporary);
  return std::unique_ptr<TokenWriter>(new TokenWriter(std::move(fd), path, vocabulary));
}

TokenWriter::~TokenWriter() {
  if (fd_.valid()) unlink((path_ + ".tmp").c_str());
}

Status TokenWriter::Append(std::span<const uint16_t> tokens) {
  RETURN_IF_ERROR(WriteAt(fd_.get(), std::as_bytes(tokens), BytesOf(count_), path_));
  count_ += tokens.size();
  return {};
}

Status TokenWriter::MoveTail(uint64_t count, TokenWriter& other) {
  CHECK(count <= count_);
  if (count == 0) return {};
  {
    const ReadMapping mapping(fd_.get(), BytesOf(count_));
    if (!mapping.valid()) return FromErrno(errno, "cannot map " + path_);
    const auto* tail =
        reinterpret_cast<const uint16_t*>(mapping.bytes().data() + BytesOf(count_ - count));
    RETURN_IF_ERROR(other.Append({tail, count}));
  }
  count_ -= count;
  if (ftruncate(fd_.get(), static_cast<off_t>(BytesOf(count_))) != 0) {
    return FromErrno(errno, "cannot cut " + path_);
  }
  return {};
}

Result<uint64_t> TokenWriter::Finish() {
  TokenHeader header;
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.vocabulary = vocabulary_;
  header.count = count_;
  RETURN_IF_ERROR(WriteAt(fd_.get(), std::as_bytes(std::span(&header, 1)), 0, path_));
  {
    const ReadMapping mapping(fd_.get(), BytesOf(count_));
    if (!mapping.valid()) return FromErrno(errno, "cannot map " + path_);
    header.hash = Hash64(mapping.bytes().subspan(kTokenHeaderBytes));
  }
  RETURN_IF_ERROR(WriteAt(fd_.get(), std::as_bytes(std::span(&header, 1)), 0, path_));
  if (fsync(fd_.get()) != 0) return FromErrno(errno, "cannot sync " + path_);
  const std::string temporary = path_ + ".tmp";
  if (rename(temporary.c_str(), path_.c_str()) != 0) {
    return FromErrno(errno, "cannot rename " + temporary + " to " + path_);
  }
  fd_.Reset();
  return header.hash;
}

}  // namespace longhaul::corpus
