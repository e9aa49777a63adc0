// The headers Host, in the first line, and Cookie, in the rest: the name of the cookie is one word,
// few values are read, and the page's own cookie is found among whatever else the browser sends.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "service/controller/page/page_cookie.h"

namespace {

constexpr std::string_view kOwn = "0123456789abcdef";

bool IsOneWord(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '-';
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(text.find('\n'), size);
  const std::string_view header = text.substr(std::min(end + 1, size));
  for (const bool secure : {false, true}) {
    const std::string name = longhaul::service::PageCookieName(text.substr(0, end), secure);
    CHECK(IsOneWord(name));
    const auto values = longhaul::service::CookieValues(header, name);
    CHECK(values.size() <= 8);
    for (const std::string& value : values) CHECK(value.find(';') == std::string::npos);
    // What a browser sends back for the page's own Set-Cookie, before everything else.
    const std::string set = longhaul::service::SetPageCookie(name, std::string(kOwn), secure);
    const std::string pair = set.substr(0, set.find(';'));
    const auto found = longhaul::service::CookieValues(pair + "; " + std::string(header), name);
    CHECK(!found.empty() && found.front() == kOwn);
  }
  return 0;
}
