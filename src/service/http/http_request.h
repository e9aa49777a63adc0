// The head of an HTTP/1.1 request (RFC 9112), from bytes to a value.
//
// Understands what the REST API needs: a path with a query, header fields, and a body of a stated
// length. It refuses what a server must not guess about: bodies without a length, folded header
// fields, two different lengths. Pure: no sockets, no clock.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace longhaul::service {

struct HttpRequest {
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

// The length of the head in `bytes`, its empty line included; nothing when it is not there whole.
// The first `searched` bytes are known not to contain the start of the empty line.
std::optional<size_t> FindHead(std::string_view bytes, size_t searched);

// Parses a head as FindHead delimits it. Returns what is wrong with it; nothing when it is sound.
std::optional<HttpRefusal> ParseHead(std::string_view head, HttpRequest& request);

// The media type of a Content-Type header field, without parameters and in lower case.
std::string MediaType(std::string_view content_type);

}  // namespace longhaul::service
