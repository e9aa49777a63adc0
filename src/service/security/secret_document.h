// A short text that only the controller may read: its table of tokens, or of join tokens.
//
// By default a file in the state directory. Controllers that stand by for each other keep them in
// their database, so that a token that one has made or revoked is known to its successor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace longhaul::service {

class SecretDocument {
 public:
  virtual ~SecretDocument() = default;
  SecretDocument(const SecretDocument&) = delete;
  SecretDocument& operator=(const SecretDocument&) = delete;

  // kNotFound when it has never been written, kResourceExhausted above `limit` bytes.
  virtual Result<std::string> Read(uint64_t limit) = 0;
  // Replaces the text; durable when this returns OK.
  virtual Status Write(std::string_view text) = 0;
  // For messages: what an operator would repair or remove.
  virtual std::string Place() const = 0;

 protected:
  SecretDocument() = default;
};

// A file of mode 0600 (io/files/private_files.h).
class SecretFile final : public SecretDocument {
 public:
  explicit SecretFile(std::string path) : path_(std::move(path)) {}
  Result<std::string> Read(uint64_t limit) override;
  Status Write(std::string_view text) override;
  std::string Place() const override { return path_; }

 private:
  const std::string path_;
};

}  // namespace longhaul::service
