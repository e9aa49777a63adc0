#include "service/controller/rest/caller.h"

#include <algorithm>

#include "base/text.h"
#include "io/clock.h"
#include "service/controller/page/page_cookie.h"

namespace longhaul::service {
namespace {

constexpr std::string_view kScheme = "bearer ";

// The token of a request; empty if it has none. The scheme's name is case-insensitive (RFC 9110,
// section 11.1), the token is not.
std::string TokenOf(const HttpRequest& request) {
  const std::string given = request.Header("authorization");
  if (given.size() < kScheme.size()) return "";
  for (size_t i = 0; i < kScheme.size(); ++i) {
    const char lower =
        given[i] >= 'A' && given[i] <= 'Z' ? static_cast<char>(given[i] + 32) : given[i];
    if (lower != kScheme[i]) return "";
  }
  return std::string(Trim(std::string_view(given).substr(kScheme.size())));
}

bool Reads(const HttpRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

}  // namespace

Result<Caller> CallerCheck::Identify(const HttpRequest& request, bool secure) const {
  if (request.Header("authorization").empty()) return OfSession(request, secure);
  Caller caller;
  caller.bearer = TokenOf(request);
  ASSIGN_OR_RETURN(caller.identity, Holder(caller.bearer));
  return caller;
}

// A token that looks like one of the external identity is never compared with the controller's own.
Result<Identity> CallerCheck::Holder(const std::string& token) const {
  if (external_ != nullptr && IsSignedToken(token)) return external_->Caller(token, io::Now());
  return tokens_.Identify(token, io::Now());
}

Result<Caller> CallerCheck::OfSession(const HttpRequest& request, bool secure) const {
  const std::vector<std::string> sessions =
      CookieValues(request.Header("cookie"), PageCookieName(request.Header("host"), secure));
  if (sessions.empty()) {
    return Unauthenticated(
        "this needs the header Authorization: Bearer TOKEN, with a token of this controller; "
        "longhaul page prints an address that opens the web page");
  }
  const std::string site = request.Header("sec-fetch-site");
  if (!site.empty() && site != "same-origin" && site != "none") {
    return PermissionDenied(
        "the page's cookie is for requests of its own page, and the header "
        "Sec-Fetch-Site is " +
        Printable(site, 40));
  }
  if (!Reads(request) && request.Header("origin").empty()) {
    return PermissionDenied(
        "a request with the page's cookie that changes something needs the "
        "header Origin, which browsers send");
  }
  for (const std::string& session : sessions) {
    const std::optional<PageGrant> grant = page_.Find(session, io::MonotonicNow());
    if (!grant) continue;
    Caller caller;
    ASSIGN_OR_RETURN(caller.identity, Holder(grant->bearer));
    caller.identity.role = std::min(caller.identity.role, grant->role);
    return caller;
  }
  return Unauthenticated(
      "this session of the page is over: open the address that longhaul page prints");
}

}  // namespace longhaul::service
