// The controller's join tokens in their file (mode 0600), and the secrets that carry them.
//
// The text of a join token is "lhj_SECRET.FINGERPRINT": 64 hex digits each. The fingerprint is the
// SHA-256 of the authority's certificate, so an agent that has only the token can verify the
// controller before it presents the secret. Thread-safe; a token that was used up is so on the disk
// before Use returns, also for a controller that starts again.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "service/security/join_table.h"

namespace longhaul::service {

struct JoinTokenText {
  std::string secret;       // "lhj_..."
  std::string fingerprint;  // of the authority
};
// Splits a join token's text; kInvalidArgument if it is none.
Result<JoinTokenText> ParseJoinToken(const std::string& text);

class JoinStore {
 public:
  static Result<std::unique_ptr<JoinStore>> Open(const std::string& path);

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
  JoinStore(std::string path, JoinTable table) : path_(std::move(path)), table_(std::move(table)) {}
  Status Replace(JoinTable changed);  // requires mutex_

  const std::string path_;
  mutable std::mutex mutex_;  // guards the table
  JoinTable table_;
};

}  // namespace longhaul::service
