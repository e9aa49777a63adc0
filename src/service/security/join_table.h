// Join tokens: each lets one agent get its first certificate, once. And the agents whose
// certificates were revoked.
//
// A token may be bound to a node's name. One that is not cannot take the name of a node that has
// joined before, so a stolen token does not replace a node. Its text, JSON:
//   {"joined": ["node-1"], "join_tokens": [{"sha256": "64 hex digits", "node": "",
//     "expires_at_ns": 2, "used_by": "node-1", "used_at_ns": 1}],   "": any node; not used
//    "revoked": [{"node": "node-2", "generation": 1, "at_ns": 3, "joined_again": false}]}
// A used token stays in the table until it would have expired, so that a replay is recognised.
// A revocation is found by a number and not by a time, so that it is exact whatever the clocks
// show: a certificate contains the generation of its node, and each revocation begins the next one.
// Pure: the caller supplies secrets and the time. join_store.h keeps the file.
#pragma once

#include <cstdint>
#include <map>
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

struct Revocation {
  uint64_t generation = 0;  // of the certificates that are valid from then on
  Instant at;
  bool joined_again = false;
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
  // Records that a node has joined by other means. Returns whether that is new; kPermissionDenied
  // once its certificates were revoked, because what it presents then may be in the same hands.
  Result<bool> NoteJoined(const std::string& node);

  // Makes all certificates of the node invalid. Returns kNotFound if no such node has joined, and
  // kFailedPrecondition if it was revoked and has not joined again.
  Status Revoke(const std::string& node, Instant now);
  // Returns the generation of the node's certificates, 0 before the first revocation.
  uint64_t GenerationOf(const std::string& node) const;
  // Returns kUnauthenticated, with the remedy, if certificates of this generation were revoked.
  Status CheckGeneration(const std::string& node, uint64_t generation) const;

  const std::vector<JoinToken>& tokens() const { return tokens_; }
  const std::set<std::string>& joined() const { return joined_; }

 private:
  std::vector<JoinToken> tokens_;
  std::set<std::string> joined_;
  std::map<std::string, Revocation> revoked_;  // by node
};

}  // namespace longhaul::service
