#include "service/http/web_origin.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "base/text.h"

namespace longhaul::service {
namespace {

constexpr size_t kShownBytes = 80;  // of a header's value, in messages

bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

// The host of "host", "host:port", "[address]" or "[address]:port"; nothing for anything else.
std::optional<std::string_view> NameInAuthority(std::string_view authority) {
  std::string_view host = authority;
  std::string_view rest;
  if (authority.starts_with('[')) {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    host = authority.substr(1, end - 1);
    rest = authority.substr(end + 1);
  } else if (const size_t colon = authority.find(':'); colon != std::string_view::npos) {
    host = authority.substr(0, colon);
    rest = authority.substr(colon);
  }
  const bool has_port = rest.starts_with(':') && ParseUint64(rest.substr(1)).ok();
  if (host.empty() || (!rest.empty() && !has_port)) return std::nullopt;
  // Commas would be several Host headers, which HttpRequest joins.
  if (host.find_first_of(", \t/@") != std::string_view::npos) return std::nullopt;
  return host;
}

std::string Shown(std::string_view value) { return Printable(value, kShownBytes); }

}  // namespace

bool IsLoopback(std::string_view host) {
  if (EqualIgnoringCase(host, "localhost")) return true;
  const std::string text(host);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

std::optional<HttpRefusal> RefuseForeignOrigin(const HttpRequest& request, bool loopback_only) {
  const std::string host = request.Header("host");
  if (host.empty() && request.version_10) return std::nullopt;  // no browser sends such a request
  const std::optional<std::string_view> name = NameInAuthority(host);
  if (!name) {
    return HttpRefusal{
        400, host.empty()
                 ? "the request has no Host header, expected HOST or HOST:PORT"
                 : "the header Host is " + Shown(host) + ", expected one HOST or HOST:PORT"};
  }
  // Against DNS rebinding: a web page can point its own name at 127.0.0.1, and the browser then
  // treats this server as the page's own origin. The Host header still has the page's name.
  if (loopback_only && !IsLoopback(*name)) {
    return HttpRefusal{403, "the header Host is " + Shown(host) +
                                ", but this server has only the names localhost, 127.0.0.1 and "
                                "[::1]: use one of them, or start the controller with "
                                "--behind-proxy if a proxy in front of it has that name"};
  }
  // A browser adds Origin to requests of web pages that could change something. Programs send none.
  const std::string origin = request.Header("origin");
  if (!origin.empty() && !EqualIgnoringCase(origin, "http://" + host) &&
      !EqualIgnoringCase(origin, "https://" + host)) {
    return HttpRefusal{
        403, "the request comes from a web page of another origin (Origin: " + Shown(origin) +
                 ", Host: " + Shown(host) + "): such pages may not use this API"};
  }
  // Covers requests for which a browser sends no Origin, such as a GET for an image.
  const std::string site = request.Header("sec-fetch-site");
  const bool foreign = site == "cross-site" || site == "same-site";
  // Following a link is not a request by the page, which never sees the answer.
  if (foreign && request.Header("sec-fetch-mode") != "navigate") {
    return HttpRefusal{
        403, "the request comes from a web page of another origin (Sec-Fetch-Site: " + Shown(site) +
                 "): such pages may not use this API"};
  }
  return std::nullopt;
}

}  // namespace longhaul::service
