// What an object store answers to "list": the subset of its XML that is used.
//
// The reader knows elements, text and the five named entities and numeric ones; it refuses what it
// doesn't know (DTDs, CDATA) rather than guess, as the bytes come from elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::objects {

struct Listing {
  struct Object {
    std::string key;
    uint64_t bytes = 0;
  };
  std::vector<Object> objects;
  std::vector<std::string> prefixes;  // "folders", each with its '/'
  bool truncated = false;
  std::string next;  // with truncated: where to continue
};

// A page of ListObjectsV2. kDataLoss when it isn't one.
Result<Listing> ParseListing(std::string_view xml);

// The text of the first element of this name, wherever it is: for short answers (UploadId, ETag,
// Code, Message). kDataLoss when there is none or the XML is broken.
Result<std::string> TextOf(std::string_view xml, std::string_view element);

}  // namespace longhaul::objects
