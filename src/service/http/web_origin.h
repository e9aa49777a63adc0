// Whether a request may come from a web page that this server did not send.
//
// A page in a browser can send requests to servers on the user's own machine. Two kinds are
// recognised by their headers:
//   DNS rebinding: the page's own name was made to resolve to 127.0.0.1, so the request is for the
//     same origin as far as the browser knows. Its Host names the page's server.
//   Cross-origin requests: browsers add Origin, the page's origin ("null" for a file or a sandbox),
//     to all of them but plain GET and HEAD, and Sec-Fetch-Site to those as well.
// Clients that are not browsers send a Host that names this server, and neither of the others.
//
// Leaves out what the API checks besides: the token, and that a body is declared as JSON.
#pragma once

#include <optional>
#include <string_view>

#include "service/http/http_request.h"

namespace longhaul::service {

// Whether `host` is localhost or a numeric loopback address (127.0.0.0/8, ::1), without brackets.
// A name that only begins with "127." is not.
bool IsLoopback(std::string_view host);

// Returns 403 for a request of another origin, 400 for one without a usable Host, and nothing for
// others. With `loopback_only`, where no proxy gives the server another name, Host must be a
// loopback host, with any port: the user may have forwarded another one.
std::optional<HttpRefusal> RefuseForeignOrigin(const HttpRequest& request, bool loopback_only);

}  // namespace longhaul::service
