// Parses an object store's answer to "list": the subset of its XML that is used.
//
// The reader supports elements, text, the five named entities and numeric ones; it rejects
// everything else (DTDs, CDATA), because the bytes come from outside.
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

// Parses a page of ListObjectsV2. kDataLoss when the text is not one.
Result<Listing> ParseListing(std::string_view xml);

// The text of the first element of this name, at any depth: for short answers (UploadId, ETag,
// Code, Message). kDataLoss when there is none or the XML is malformed.
Result<std::string> TextOf(std::string_view xml, std::string_view element);

}  // namespace longhaul::objects
