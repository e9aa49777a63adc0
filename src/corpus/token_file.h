// Tokens on disk: a small header, then the tokens as u16, little-endian (docs/token-file.md).
//
//   offset  bytes
//        0      8  "LHTOKENS"
//        8      4  version, 1
//       12      4  vocabulary: every token is below it
//       16      8  count of tokens
//       24      8  XXH3-64 of the tokens' bytes
//       32     32  zero
//       64  2 * count
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "io/fd.h"

namespace longhaul::corpus {

constexpr size_t kTokenHeaderBytes = 64;

// The tokens in a whole file's bytes. kDataLoss naming the error: magic, version, size, hash, a
// token not below the vocabulary. Requires bytes aligned for uint16_t.
Result<std::span<const uint16_t>> ParseTokens(std::span<const std::byte> file);

// A token file mapped for reading; Open has checked its content.
class TokenFile {
 public:
  static Result<TokenFile> Open(const std::string& path);
  TokenFile(TokenFile&& other) noexcept;
  TokenFile& operator=(TokenFile&& other) noexcept;
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;
  ~TokenFile();

  std::span<const uint16_t> tokens() const { return tokens_; }
  uint64_t hash() const { return hash_; }

 private:
  TokenFile() = default;

  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::span<const uint16_t> tokens_;
  uint64_t hash_ = 0;
};

// Writes a token file: to a temporary name first, so that the final name only ever has a complete
// file.
class TokenWriter {
 public:
  static Result<std::unique_ptr<TokenWriter>> Create(const std::string& path, uint32_t vocabulary);
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;
  ~TokenWriter();  // removes an unfinished file

  Status Append(std::span<const uint16_t> tokens);
  // Removes the last `count` tokens and appends them to `other`. Requires count <=
  // this->count().
  Status MoveTail(uint64_t count, TokenWriter& other);
  // Writes the header, syncs and renames. Returns the hash. Requires no further call.
  Result<uint64_t> Finish();

  uint64_t count() const { return count_; }

 private:
  TokenWriter(io::Fd fd, std::string path, uint32_t vocabulary);

  io::Fd fd_;
  std::string path_;
  uint32_t vocabulary_;
  uint64_t count_ = 0;
};

}  // namespace longhaul::corpus
