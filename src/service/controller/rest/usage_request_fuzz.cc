// Parameters of GET /v1/usage, one a line: an accepted query names at least one key and a time that
// is not empty.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "service/controller/rest/usage_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::map<std::string, std::string> query;
  for (const std::string_view line : longhaul::Split(text, '\n')) {
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    query[std::string(line.substr(0, equals))] = std::string(line.substr(equals + 1));
  }
  const auto now = longhaul::InstantFromNanoseconds(1'790'000'000'000'000'000);
  const auto wanted = longhaul::service::ParseUsageQuery(query, now);
  if (!wanted.ok()) {
    CHECK(!wanted.status().message().empty());
    return 0;
  }
  CHECK(!wanted->by.empty() && wanted->by.size() <= 5);
  CHECK(wanted->since < wanted->until && wanted->until <= now);
  return 0;
}
