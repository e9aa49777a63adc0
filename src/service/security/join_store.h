// The controller's join tokens in their document, and the secrets that carry them.
//
// The text of a join token is "lhj_SECRET.FINGERPRINT": 64 hex digits each. The fingerprint is the
// SHA-256 of the authority's certificate, so an agent that has only the token can verify the
// controller before it presents the secret. Thread-safe; a token that was used up is so durably
// before Use returns, also for a controller that starts again.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "service/security/join_table.h"
#include "service/security/secret_document.h"

namespace longhaul::service {

struct JoinTokenText {
  std::string secret;       // "lhj_..."
  std::string fingerprint;  // of the authority
};
// Splits a join token's text; kInvalidArgument if it is none.
Result<JoinTokenText> ParseJoinToken(const std::string& text);

class JoinStore {
 public:
  static Result<std::unique_ptr<JoinStore>> Open(std::unique_ptr<SecretDocument> document);
  // The same with a file.
  static Result<std::unique_ptr<JoinStore>> Open(const std::string& path) {
    return Open(std::make_unique<SecretFile>(path));
  }

  // Returns the text of a new token for the node, or for any with an empty name.
  Result<std::string> Create(const std::string& node, const std::string& fingerprint,
                             Instant expires, Instant now);
  // JoinTable::Use, durable.
  Status Use(const std::string& secret, const std::string& node, Instant now);
  // JoinTable::NoteJoined, durable.
  Status NoteJoined(const std::string& node);
  // JoinTable::Revoke, durable.
  Status Revoke(const std::string& node, Instant now);
  uint64_t GenerationOf(const std::string& node) const;
  Status CheckGeneration(const std::string& node, uint64_t generation) const;

 private:
  JoinStore(std::unique_ptr<SecretDocument> document, JoinTable table)
      : document_(std::move(document)), table_(std::move(table)) {}
  Status Replace(JoinTable changed);  // requires mutex_

  const std::unique_ptr<SecretDocument> document_;
  mutable std::mutex mutex_;  // guards the table
  JoinTable table_;
};

}  // namespace longhaul::service
