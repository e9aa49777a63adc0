// Any bytes as a listing and as a short answer: accepted listings hold what they must, and escaped
// texts come back.

#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "base/xml.h"
#include "objects/listing.h"

using namespace longhaul;
using namespace longhaul::objects;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view xml(reinterpret_cast<const char*>(data), size);
  const Result<Listing> listing = ParseListing(xml);
  if (listing.ok()) {
    for (const Listing::Object& object : listing->objects) {
      CHECK(!object.key.empty() && IsUtf8(object.key));
    }
    CHECK(!listing->truncated || !listing->next.empty());
  }
  const Result<std::string> code = TextOf(xml, "Code");
  if (code.ok()) CHECK(*TextOf("<Code>" + XmlEscape(*code) + "</Code>", "Code") == *code);
  return 0;
}
