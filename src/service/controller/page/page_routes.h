// The routes of the web page: its files, its one-time links and its sessions. Thread-safe.
//
// The page's files need no token, because a browser loads them before it has one. They are the
// same for everybody and contain no data of the controller.
#pragma once

#include <string>

#include "service/controller/page/page_access.h"
#include "service/controller/rest/api_response.h"

namespace longhaul::service {

class PageRoutes {
 public:
  // Requires that `access` outlives this.
  explicit PageRoutes(PageAccess& access) : access_(access) {}

  // Requires the path of a page file. Returns 304 if the browser has this version.
  ApiResponse File(const ApiRequest& request) const;

  // Returns a link for the holder of the request's bearer token. A session of the page may make
  // none: else it could be prolonged without end.
  ApiResponse MakeLink(const ApiRequest& request) const;

  // Uses up the link in the header Longhaul-Page-Link, and sets the cookie of a session.
  ApiResponse OpenSession(const ApiRequest& request) const;

  // Returns the name and the role of the caller, so that the page offers only what it may do.
  ApiResponse Session(const ApiRequest& request) const;

 private:
  PageAccess& access_;
};

}  // namespace longhaul::service
