#include "service/controller/page/page_routes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "io/clock.h"
#include "service/controller/page/page_cookie.h"
#include "service/controller/page/page_files.h"
#include "service/controller/rest/request_body.h"
#include "service/security/secret.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

// The page runs scripts and styles of this server only, talks to it only, is shown in no frame, and
// its script cannot turn text into HTML.
constexpr const char* kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

std::string TagOf(const PageFile& file) { return "\"" + HashOf(file.bytes).substr(0, 32) + "\""; }

// The versions of the files don't change while the program runs.
const std::vector<std::string>& Tags() {
  static const std::vector<std::string> tags = [] {
    std::vector<std::string> made;
    for (const PageFile& file : PageFiles()) made.push_back(TagOf(file));
    return made;
  }();
  return tags;
}

Result<Role> WantedRole(const ApiRequest& request) {
  if (request.body.empty()) return Role::kView;
  ASSIGN_OR_RETURN(const Json body, ParseObject(request.body));
  constexpr std::array<std::string_view, 1> kKnown = {"role"};
  RETURN_IF_ERROR(RefuseUnknown(body, kKnown));
  std::string role(NameOf(Role::kView));
  RETURN_IF_ERROR(TakeText(body, "role", role));
  return ParseRole(role);
}

}  // namespace

ApiResponse PageRoutes::File(const ApiRequest& request) const {
  const auto& files = PageFiles();
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const PageFile& file) { return request.path == file.path; });
  CHECK(found != files.end());
  const std::string& tag = Tags()[static_cast<size_t>(found - files.begin())];
  ApiResponse response;
  // The browser keeps the files, and asks at each load whether they have changed.
  response.cache_control = "no-cache";
  response.content_type = found->media_type;
  response.headers = {{"ETag", tag},
                      {"Content-Security-Policy", kPagePolicy},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Resource-Policy", "same-origin"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"X-Frame-Options", "DENY"}};
  if (request.if_none_match == tag) {
    response.status = 304;
    return response;
  }
  response.body = found->bytes;
  return response;
}

ApiResponse PageRoutes::MakeLink(const ApiRequest& request) const {
  if (request.bearer.empty()) {
    return ErrorResponse(PermissionDenied(
        "a session of the page cannot make a link: longhaul page makes one, with a token"));
  }
  const auto role = WantedRole(request);
  if (!role.ok()) return ErrorResponse(role.status());
  if (!Permits(request.caller.role, *role)) {
    return WrongRole(request.caller, *role, "a link with the role " + std::string(NameOf(*role)));
  }
  const auto secret = access_.MakeLink({request.bearer, *role}, io::MonotonicNow());
  if (!secret.ok()) return ErrorResponse(secret.status());
  return JsonResponse({{"link", "/#t=" + *secret},
                       {"role", NameOf(*role)},
                       {"seconds", ToSeconds(PageAccess::kLinkTime)}},
                      201);
}

ApiResponse PageRoutes::OpenSession(const ApiRequest& request) const {
  if (request.page_link.empty()) {
    return ErrorResponse(InvalidArgument(
        "the request has no header Longhaul-Page-Link: open the address that longhaul page "
        "prints in a browser"));
  }
  const auto session = access_.OpenSession(request.page_link, io::MonotonicNow());
  if (!session.ok()) return ErrorResponse(session.status());
  ApiResponse response = JsonResponse({{"opened", true}}, 201);
  const std::string name = PageCookieName(request.host, request.secure);
  response.headers.emplace_back("Set-Cookie", SetPageCookie(name, *session, request.secure));
  return response;
}

ApiResponse PageRoutes::Session(const ApiRequest& request) const {
  return JsonResponse({{"name", request.caller.name}, {"role", NameOf(request.caller.role)}});
}

}  // namespace longhaul::service
