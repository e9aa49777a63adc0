// Join tokens: each lets one agent get its first certificate, once.
//
// A token may be bound to a node's name. One that is not cannot take the name of a node that has
// joined before, so a stolen token does not replace a node. Its text, JSON:
//   {"joined": ["node-1"], "join_tokens": [{"sha256": "64 hex digits", "node": "",
//     "expires_at_ns": 2, "used_by": "node-1", "used_at_ns": 1}]}   "": any node; not used
// A used token stays in the table until it would have expired, so that a replay is recognised.
// Pure: the caller supplies secrets and the time. join_store.h keeps the file.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace longhaul::service {

// Returns whether the text is a valid node name: 1 to 63 of a-z, 0-9 and '-'.
bool IsNodeName(std::string_view name);

struct JoinToken {
  std::string sha256;  // of the secret, in hex
  std::string node;    // empty: any that has not joined yet
  Instant expires;
  std::string used_by;  // empty: not used
  Instant used_at;
};

class JoinTable {
 public:
  static constexpr size_t kMostTokens = 1000;

  static Result<JoinTable> Parse(const std::string& text);
  std::string Text() const;

  // Adds a token and drops those that have expired at `now`.
  Status Add(JoinToken token, Instant now);
  // Uses the token up for this node. Returns kUnauthenticated if the secret is unknown, expired or
  // used, and kPermissionDenied if it is for another node or the node needs a token of its own.
  Status Use(std::string_view secret, const std::string& node, Instant now);
  // Records that a node has joined by other means. Returns whether that is new.
  bool NoteJoined(const std::string& node) { return joined_.insert(node).second; }

  const std::vector<JoinToken>& tokens() const { return tokens_; }
  const std::set<std::string>& joined() const { return joined_; }

 private:
  std::vector<JoinToken> tokens_;
  std::set<std::string> joined_;
};

}  // namespace longhaul::service
