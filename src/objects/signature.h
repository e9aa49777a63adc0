// AWS Signature Version 4 for requests to S3 and compatible stores.
//
// Pure: a request, a time and keys go in, headers come out. Follows "Authenticating Requests: Using
// the Authorization Header (AWS Signature Version 4)" in Amazon's S3 API reference, whose examples
// are the tests. The body's SHA-256 is signed, so a server rejects a body that changed in transit.
// Leaves out chunked signatures and signed URLs.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace longhaul::objects {

// The caller's keys. Never printed.
struct Credentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token;  // empty: none
};

struct Request {
  std::string method;  // GET, PUT, ...
  std::string host;    // as in the Host header, with a port that is not the scheme's own
  std::string path;    // "/bucket/some key", not encoded
  std::vector<std::pair<std::string, std::string>> query;  // not encoded
  std::map<std::string, std::string> headers;              // names in lower case
  std::span<const std::byte> body;
};

// Bytes other than letters, digits and -._~ become %XX; so does '/' unless `keep_slash`.
std::string PercentEncode(std::string_view text, bool keep_slash);

// The part of the URL after the host: path and query, encoded as signed, with the query sorted.
std::string TargetOf(const Request& request);

// SHA-256 as 64 hexadecimal digits.
std::string Sha256Hex(std::span<const std::byte> bytes);

// The request's headers with host, x-amz-date, x-amz-content-sha256 and authorization, and the
// token of a session.
std::map<std::string, std::string> Sign(const Request& request, const Credentials& credentials,
                                        std::string_view region, Instant now);

}  // namespace longhaul::objects
