#include "engines/kubernetes/protocol/watch_event.h"

#include <utility>

#include "base/text.h"
#include "engines/kubernetes/protocol/objects/json_fields.h"
#include "engines/kubernetes/protocol/objects/object_fields.h"

namespace longhaul::engines::kubernetes {
namespace {

Status ReadType(JsonValue value, const JsonPlace& place, WatchEventType* type) {
  constexpr std::pair<std::string_view, WatchEventType> kTypes[] = {
      {"ADDED", WatchEventType::kAdded},
      {"MODIFIED", WatchEventType::kModified},
      {"DELETED", WatchEventType::kDeleted},
      {"BOOKMARK", WatchEventType::kBookmark},
      {"ERROR", WatchEventType::kError}};
  ASSIGN_OR_RETURN(const std::string_view text, TextOf(value, place));
  for (const auto& [name, known] : kTypes) {
    if (name != text) continue;
    *type = known;
    return Status();
  }
  return InvalidArgument(place.Text() + " is '" + Printable(text) +
                         "', expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR");
}

// Finds the end of the object while its metadata is read: a pass over the text for each of them
// would take as long again.
Status ReadEventObject(JsonParser& parser, JsonValue value, const JsonPlace& place,
                       WatchEvent* event) {
  ASSIGN_OR_RETURN(const bool null, IsNull(value, place));
  if (null) return WrongType(place, "an object");
  const char* const begin = value.raw_json_token().data();
  event->meta = {};
  RETURN_IF_ERROR(ForEachField(
      value, place, [event](std::string_view key, JsonValue field, const JsonPlace& at) {
        return key == "metadata" ? ReadMetaField(field, at, &event->meta) : Status();
      }));
  const char* end = nullptr;
  if (const auto error = parser.impl().document.current_location().get(end); error) {
    return Malformed(place, error);
  }
  event->object.text = std::string_view(begin, static_cast<size_t>(end - begin));
  return Status();
}

}  // namespace

Result<WatchEvent> ReadWatchEvent(JsonParser& parser, PaddedText line) {
  const JsonPlace place{nullptr, "event"};
  WatchEvent event;
  bool has_type = false;
  RETURN_IF_ERROR(
      ReadObject(parser, line, place,
                 [&](std::string_view key, JsonValue value, const JsonPlace& at) -> Status {
                   if (key == "type") {
                     has_type = true;
                     return ReadType(value, at, &event.type);
                   }
                   return key == "object" ? ReadEventObject(parser, value, at, &event) : Status();
                 }));
  if (!has_type) return InvalidArgument("event has no type");
  if (event.object.text.empty()) return InvalidArgument("event has no object");
  if (event.type != WatchEventType::kBookmark && event.type != WatchEventType::kError) {
    RETURN_IF_ERROR(CheckMeta(event.meta, JsonPlace{nullptr, "object"}));
  }
  return event;
}

Result<Bookmark> ReadBookmark(JsonParser& parser, PaddedText object) {
  Bookmark bookmark;
  const auto annotation = [&](std::string_view key, JsonValue value,
                              const JsonPlace& at) -> Status {
    if (key != "k8s.io/initial-events-end") return Status();
    ASSIGN_OR_RETURN(const std::string_view text, TextOf(value, at));
    bookmark.ends_initial_events = text == "true";
    return Status();
  };
  const auto meta = [&](std::string_view key, JsonValue value, const JsonPlace& at) -> Status {
    if (key == "resourceVersion") return ReadString(value, at, &bookmark.resource_version);
    return key == "annotations" ? ForEachField(value, at, annotation) : Status();
  };
  RETURN_IF_ERROR(
      ReadObject(parser, object, JsonPlace{nullptr, "bookmark"},
                 [&](std::string_view key, JsonValue value, const JsonPlace& at) -> Status {
                   return key == "metadata" ? ForEachField(value, at, meta) : Status();
                 }));
  if (bookmark.resource_version.empty()) {
    return InvalidArgument("bookmark has no metadata.resourceVersion");
  }
  return bookmark;
}

Result<ListPage> ReadListPage(JsonParser& parser, PaddedText body) {
  ListPage page;
  const auto meta = [&page](std::string_view key, JsonValue value, const JsonPlace& at) -> Status {
    if (key == "resourceVersion") return ReadString(value, at, &page.resource_version);
    return key == "continue" ? ReadString(value, at, &page.continue_token) : Status();
  };
  const auto item = [&page](JsonValue value, const JsonPlace& at) -> Status {
    ASSIGN_OR_RETURN(page.items.emplace_back().text, RawObject(value, at));
    return Status();
  };
  RETURN_IF_ERROR(
      ReadObject(parser, body, JsonPlace{nullptr, "list"},
                 [&](std::string_view key, JsonValue value, const JsonPlace& at) -> Status {
                   if (key == "metadata") return ForEachField(value, at, meta);
                   return key == "items" ? ForEachElement(value, at, item) : Status();
                 }));
  if (page.resource_version.empty()) {
    return InvalidArgument("list has no metadata.resourceVersion");
  }
  return page;
}

}  // namespace longhaul::engines::kubernetes
