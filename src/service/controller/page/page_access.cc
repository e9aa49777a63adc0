#include "service/controller/page/page_access.h"

#include <algorithm>
#include <utility>

#include "service/security/secret.h"

namespace longhaul::service {
namespace {

constexpr size_t kLinkDigits = 32;  // 128 bits: guessed by nobody within a minute

}  // namespace

Result<std::string> PageAccess::MakeLink(PageGrant grant, Instant now) {
  ASSIGN_OR_RETURN(const std::string random, MakeSecret(""));
  std::string secret = random.substr(0, kLinkDigits);
  const std::lock_guard lock(mutex_);
  if (links_.size() >= kMostLinks) links_.pop_front();
  links_.push_back({HashOf(secret), std::move(grant), now + kLinkTime});
  return secret;
}

Result<std::string> PageAccess::OpenSession(std::string_view link, Instant now) {
  ASSIGN_OR_RETURN(std::string secret, MakeSecret(""));
  const std::string hash = HashOf(link);
  const std::lock_guard lock(mutex_);
  std::erase_if(links_, [&](const Entry& entry) { return entry.ends <= now; });
  std::erase_if(sessions_, [&](const Entry& entry) { return entry.ends <= now; });
  const auto found = std::find_if(links_.begin(), links_.end(),
                                  [&](const Entry& entry) { return entry.hash == hash; });
  if (found == links_.end()) {
    return Unauthenticated(
        "this link of the page was used before, has expired or is of another controller: longhaul "
        "page prints a new one");
  }
  if (sessions_.size() >= kMostSessions) sessions_.pop_front();
  sessions_.push_back({HashOf(secret), std::move(found->grant), now + kSessionTime});
  links_.erase(found);
  return secret;
}

std::optional<PageGrant> PageAccess::Find(std::string_view session, Instant now) const {
  const std::string hash = HashOf(session);
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(sessions_.begin(), sessions_.end(),
                                  [&](const Entry& entry) { return entry.hash == hash; });
  if (found == sessions_.end() || found->ends <= now) return std::nullopt;
  return found->grant;
}

}  // namespace longhaul::service
