// Who may use the web page: links that open it once, and the sessions that they begin.
//
// A link is made for the holder of a bearer token and can be used once, within a minute. It begins
// a session, which the browser presents as a cookie. A session stands for the bearer token that
// its link was made with, limited to a role: when that token expires or is revoked, the session is
// over, too. All of it is in memory, so a restart of the controller ends the sessions.
//
// Secrets of links and sessions are kept as hashes only. Bounded: the oldest link and the oldest
// session make room for a new one. Thread-safe. Requires one monotonic clock.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "service/security/role.h"

namespace longhaul::service {

// What a session may do: what the holder of the bearer token may, up to the role.
struct PageGrant {
  std::string bearer;
  Role role = Role::kView;
};

class PageAccess {
 public:
  static constexpr size_t kMostLinks = 64;
  static constexpr size_t kMostSessions = 256;
  // A link is in the terminal's history, and is used at once or not at all.
  static constexpr Duration kLinkTime = std::chrono::seconds(60);
  static constexpr Duration kSessionTime = std::chrono::hours(12);  // a shift

  // Returns the secret of a new link: 128 random bits in hex.
  Result<std::string> MakeLink(PageGrant grant, Instant now);

  // Uses up a link, and returns the secret of a new session. kUnauthenticated for a link that is
  // unknown, was used, or has expired: all three alike, since the first two cannot be told apart.
  Result<std::string> OpenSession(std::string_view link, Instant now);

  // Returns nothing for an unknown session and for one that is over.
  std::optional<PageGrant> Find(std::string_view session, Instant now) const;

 private:
  struct Entry {
    std::string hash;
    PageGrant grant;
    Instant ends;
  };

  mutable std::mutex mutex_;   // guards both
  std::list<Entry> links_;     // the oldest first
  std::list<Entry> sessions_;  // the oldest first
};

}  // namespace longhaul::service
