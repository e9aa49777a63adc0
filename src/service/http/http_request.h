// Parses the head of an HTTP/1.1 request (RFC 9112).
//
// Supports what the REST API needs: a path with a query, header fields, and a body with a given
// length. Refuses what is ambiguous: bodies without a length, folded header fields, two different
// lengths. Pure: no sockets, no clock.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace longhaul::service {

struct HttpRequest {
  std::string peer;                            // the client's numeric address
  std::string method;                          // as sent
  std::string path;                            // percent-decoded, without the query
  std::map<std::string, std::string> query;    // decoded; the first value of a name counts
  std::map<std::string, std::string> headers;  // names in lower case; repeated: joined by ", "
  std::string body;
  size_t body_bytes = 0;    // Content-Length
  bool version_10 = false;  // HTTP/1.0
  bool keep_alive = true;   // whether the client wants the connection to stay open

  // The value of a header field by its name in lower case; empty when there is none.
  std::string Header(const std::string& name) const;
};

// Why a request is not served.
struct HttpRefusal {
  int status = 400;
  std::string message;
};

// Returns the length of the head in `bytes`, including its empty line; nothing when it is
// incomplete. Requires that the empty line doesn't start within the first `searched` bytes.
std::optional<size_t> FindHead(std::string_view bytes, size_t searched);

// Parses a head that FindHead has found. Returns its error; nothing when it is valid.
std::optional<HttpRefusal> ParseHead(std::string_view head, HttpRequest& request);

// Returns the media type of a Content-Type header field, without parameters and in lower case.
std::string MediaType(std::string_view content_type);

}  // namespace longhaul::service
