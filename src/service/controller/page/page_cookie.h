// The cookie of a session of the web page. Pure.
//
// Browsers send a cookie to every port of a host, so its name has the port: pages of two
// controllers on one machine keep their own sessions. With TLS the name has the prefix __Host-,
// with which browsers take the cookie only from this host, with Secure and for all paths.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longhaul::service {

// `host` is the header Host: the port that the browser uses, which a tunnel may have changed.
std::string PageCookieName(std::string_view host, bool secure);

// Returns the value of the header Set-Cookie. Scripts can't read the cookie, and the browser sends
// it with requests of this site's own pages only.
std::string SetPageCookie(const std::string& name, const std::string& secret, bool secure);

// Returns the values of all cookies of this name: a page of another port may have set one as well.
// At most eight.
std::vector<std::string> CookieValues(std::string_view header, std::string_view name);

}  // namespace longhaul::service
