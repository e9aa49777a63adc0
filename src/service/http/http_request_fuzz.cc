// Any bytes as the head of a request: refused or a request whose parts are within their limits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "service/http/http_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::service;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto head = FindHead(bytes, 0);
  if (!head.has_value()) return 0;
  CHECK(*head <= size);
  HttpRequest request;
  const auto refusal = ParseHead(bytes.substr(0, *head), request);
  if (refusal.has_value()) {
    CHECK(refusal->status >= 400 && refusal->status < 600 && !refusal->message.empty());
    return 0;
  }
  CHECK(!request.method.empty() && request.path.size() <= 1024 && !request.path.empty());
  CHECK(request.headers.size() <= 100 && request.query.size() <= 100);
  CHECK(MediaType(request.Header("content-type")).size() <= size);
  return 0;
}
