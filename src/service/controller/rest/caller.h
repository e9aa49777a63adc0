// Who sends a request: the holder of a bearer token, or of a session of the web page.
//
// A cookie counts only where there is no Authorization header. Browsers add cookies by themselves,
// so a request with one must come from a page of this server: Sec-Fetch-Site, where the browser
// sends it, and for anything but reading also Origin, which http/web_origin.h compares with Host.
// Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "service/controller/page/page_access.h"
#include "service/http/http_request.h"
#include "service/security/external_identity.h"
#include "service/security/role.h"
#include "service/security/token_store.h"

namespace longhaul::service {

struct Caller {
  Identity identity;
  std::string bearer;  // the token of the header Authorization; empty: a session, or nobody
};

class CallerCheck {
 public:
  // Requires that all outlive this. `external` may be null.
  CallerCheck(const TokenStore& tokens, const PageAccess& page,
              std::shared_ptr<ExternalIdentity> external)
      : tokens_(tokens), page_(page), external_(std::move(external)) {}

  // `secure`: the browser uses https. Returns kUnauthenticated with the reason, and
  // kPermissionDenied for a session's request that a page of this server would not send.
  Result<Caller> Identify(const HttpRequest& request, bool secure) const;

 private:
  Result<Identity> Holder(const std::string& token) const;
  Result<Caller> OfSession(const HttpRequest& request, bool secure) const;

  const TokenStore& tokens_;
  const PageAccess& page_;
  const std::shared_ptr<ExternalIdentity> external_;
};

}  // namespace longhaul::service
