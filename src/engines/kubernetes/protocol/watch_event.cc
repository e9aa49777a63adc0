#include "engines/kubernetes/protocol/watch_event.h"

#include <utility>

#include "base/text.h"
#include "engines/kubernetes/protocol/objects/json_fields.h"

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
                   if (key == "object") {
                     ASSIGN_OR_RETURN(event.object.text, RawObject(value, at));
                   }
                   return Status();
                 }));
  if (!has_type) return InvalidArgument("event has no type");
  if (event.object.text.empty()) return InvalidArgument("event has no object");
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
