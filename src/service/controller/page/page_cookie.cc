#include "service/controller/page/page_cookie.h"

#include "base/text.h"

namespace longhaul::service {
namespace {

constexpr size_t kMostCookies = 8;

}  // namespace

std::string PageCookieName(std::string_view host, bool secure) {
  std::string name = secure ? "__Host-longhaul" : "longhaul";
  const size_t colon = host.rfind(':');
  const size_t bracket = host.rfind(']');
  if (colon == std::string_view::npos) return name;
  if (bracket != std::string_view::npos && bracket > colon) return name;
  if (ParseUint64(host.substr(colon + 1)).ok()) name += "_" + std::string(host.substr(colon + 1));
  return name;
}

std::string SetPageCookie(const std::string& name, const std::string& secret, bool secure) {
  return name + "=" + secret + "; Path=/; HttpOnly; SameSite=Strict" + (secure ? "; Secure" : "");
}

std::vector<std::string> CookieValues(std::string_view header, std::string_view name) {
  std::vector<std::string> values;
  for (const std::string_view each : Split(header, ';')) {
    const std::string_view cookie = Trim(each);
    const size_t equals = cookie.find('=');
    if (equals == std::string_view::npos || cookie.substr(0, equals) != name) continue;
    values.emplace_back(cookie.substr(equals + 1));
    if (values.size() == kMostCookies) break;
  }
  return values;
}

}  // namespace longhaul::service
