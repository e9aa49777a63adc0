// The documents that list and watch requests answer with: events and pages.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/protocol/objects/json_parser.h"
#include "engines/kubernetes/protocol/objects/object_meta.h"
#include "engines/kubernetes/protocol/objects/padded_text.h"

namespace longhaul::engines::kubernetes {

enum class WatchEventType { kAdded, kModified, kDeleted, kBookmark, kError };

// One line of a watch: {"type": "ADDED", "object": {...}}.
struct WatchEvent {
  WatchEventType type = WatchEventType::kError;
  // The object's JSON within the line; for kError a Status (api_status.h).
  PaddedText object;
  // Its metadata, as ReadObjectMeta returns it; of a bookmark and of kError without its checks,
  // because they have no name.
  ObjectMeta meta;
};

// kInvalidArgument when the type is unknown, or the object or a part of its metadata is missing.
Result<WatchEvent> ReadWatchEvent(JsonParser& parser, PaddedText line);

// What a BOOKMARK carries.
struct Bookmark {
  std::string resource_version;
  bool ends_initial_events = false;  // annotation k8s.io/initial-events-end
};
Result<Bookmark> ReadBookmark(JsonParser& parser, PaddedText object);

// One page of a list.
struct ListPage {
  std::string resource_version;
  std::string continue_token;     // empty: the last page
  std::vector<PaddedText> items;  // the objects' JSON within the page
};
// kInvalidArgument when a field has the wrong type or the version is missing.
Result<ListPage> ReadListPage(JsonParser& parser, PaddedText body);

}  // namespace longhaul::engines::kubernetes
