#include "engines/kubernetes/double/api_double.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

std::string QueryValue(const ApiRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

Refusal ExpiredRefusal(const std::string& what) {
  return {410, "Expired", "The resourceVersion for the provided " + what + " is too old.", Json()};
}

std::string EventLine(std::string_view type, const Json& object) {
  return Json{{"type", type}, {"object", object}}.dump() + "\n";
}

bool Selects(const ApiWatch& watch, const Json& object) {
  if (object.is_null()) return false;
  if (!watch.namespace_name.empty() &&
      object["metadata"].value("namespace", "") != watch.namespace_name) {
    return false;
  }
  return MatchesLabels(object, watch.labels) && MatchesFields(object, watch.fields);
}

}  // namespace

std::string ApiDouble::KeyOf(const std::string& namespace_name, const std::string& name) {
  return namespace_name.empty() ? name : namespace_name + "/" + name;
}

ApiResponse ApiDouble::Refuse(const Refusal& refusal) {
  return {refusal.code, StatusJson(refusal).dump(), std::nullopt};
}

std::string ApiDouble::Now() const {
  return ToString(now_).substr(0, 19) + "Z";  // the server writes whole seconds
}

std::optional<ApiDouble::Route> ApiDouble::Parse(const std::string& path) {
  std::vector<std::string> parts;
  for (const std::string_view part : Split(path, '/')) {
    if (!part.empty()) parts.emplace_back(part);
  }
  const bool core = !parts.empty() && parts[0] == "api";
  const size_t first = core ? 2 : 3;
  if (parts.size() <= first || (!core && parts[0] != "apis")) return std::nullopt;
  Route route;
  size_t at = first;
  if (parts[at] == "namespaces" && parts.size() > at + 2) {
    route.namespace_name = parts[at + 1];
    at += 2;
  }
  route.info = FindResource(core ? "" : parts[1], parts[first - 1], parts[at]);
  if (route.info == nullptr || parts.size() > at + 3) return std::nullopt;
  if (parts.size() > at + 1) route.name = parts[at + 1];
  if (parts.size() > at + 2) route.subresource = parts[at + 2];
  return route;
}

ApiResponse ApiDouble::Handle(const ApiRequest& request) {
  const std::optional<Route> route = Parse(request.path);
  if (!route) return {404, "404 page not found\n", std::nullopt};
  return route->name.empty() ? HandleCollection(request, *route) : HandleObject(request, *route);
}

ApiResponse ApiDouble::HandleCollection(const ApiRequest& request, const Route& route) {
  if (request.method == "POST") return Create(request, route);
  if (request.method == "GET") {
    const std::string watch = QueryValue(request, "watch");
    return watch == "1" || watch == "true" ? Watch(request, route) : List(request, route);
  }
  return Refuse({405, "MethodNotAllowed",
                 "the server does not allow this method on the requested resource",
                 Json::object()});
}

ApiResponse ApiDouble::HandleObject(const ApiRequest& request, const Route& route) {
  if (request.method == "PATCH") return Patch(request, route);
  Objects& objects = objects_[route.info->resource.plural];
  const auto found = objects.find(KeyOf(route.namespace_name, route.name));
  // Checked before the pod is looked for, as on the server.
  if (request.method == "POST" && route.subresource == "binding") {
    const Json binding = Json::parse(request.body, nullptr, false);
    if (binding.is_object() && binding["metadata"].value("name", "") != route.name) {
      return Refuse(
          {400, "BadRequest", "name in URL does not match name in Binding object", Json()});
    }
  }
  if (found == objects.end()) return Refuse(NotFoundRefusal(*route.info, route.name));
  Stored& stored = found->second;
  if (request.method == "GET") return {200, stored.object.dump(), std::nullopt};
  if (request.method == "PUT") return Put(request, route, stored);
  if (request.method == "DELETE") {
    return Delete(route, stored, Json::parse(request.body, nullptr, false));
  }
  if (request.method == "POST" && route.subresource == "binding") {
    return Bind(request, route, stored);
  }
  if (request.method == "POST" && route.subresource == "eviction") {
    return Evict(request, route, stored);
  }
  return Refuse({405, "MethodNotAllowed",
                 "the server does not allow this method on the requested resource",
                 Json::object()});
}

ApiResponse ApiDouble::List(const ApiRequest& request, const Route& route) {
  const Result<int64_t> limit = ParseInt64(QueryValue(request, "limit"));
  std::string after = QueryValue(request, "continue");
  uint64_t version = version_;
  if (!after.empty()) {
    // "VERSION/KEY": opaque to clients.
    const size_t slash = after.find('/');
    const Result<uint64_t> started = ParseUint64(std::string_view(after).substr(0, slash));
    if (!started.ok() || *started < compacted_) return Refuse(ExpiredRefusal("list"));
    version = *started;
    after = after.substr(slash + 1);
  } else if (QueryValue(request, "resourceVersionMatch") == "Exact") {
    const Result<uint64_t> wanted = ParseUint64(QueryValue(request, "resourceVersion"));
    if (!wanted.ok() || *wanted < compacted_) return Refuse(ExpiredRefusal("list"));
  }
  ApiWatch selection{route.info,
                     route.namespace_name,
                     QueryValue(request, "labelSelector"),
                     QueryValue(request, "fieldSelector"),
                     0,
                     0};
  Json items = Json::array();
  std::string last;
  size_t remaining = 0;
  for (const auto& [key, stored] : objects_[route.info->resource.plural]) {
    if ((!after.empty() && key <= after) || !Selects(selection, stored.object)) continue;
    if (limit.ok() && *limit > 0 && items.size() == static_cast<size_t>(*limit)) {
      ++remaining;
      continue;
    }
    Json item = stored.object;
    // The server leaves both out in lists.
    item.erase("kind");
    item.erase("apiVersion");
    items.push_back(std::move(item));
    last = key;
  }
  Json meta = {{"resourceVersion", std::to_string(version)}};
  if (remaining > 0) {
    meta["continue"] = std::to_string(version) + "/" + last;
    if (selection.labels.empty() && selection.fields.empty()) {
      meta["remainingItemCount"] = remaining;
    }
  }
  const Resource& resource = route.info->resource;
  const std::string group = resource.group.empty() ? "" : resource.group + "/";
  const Json list = {{"kind", route.info->kind + "List"},
                     {"apiVersion", group + resource.version},
                     {"metadata", std::move(meta)},
                     {"items", std::move(items)}};
  return {200, list.dump(), std::nullopt};
}

ApiResponse ApiDouble::Watch(const ApiRequest& request, const Route& route) {
  ApiWatch watch{route.info,
                 route.namespace_name,
                 QueryValue(request, "labelSelector"),
                 QueryValue(request, "fieldSelector"),
                 version_,
                 0};
  const Result<int64_t> timeout = ParseInt64(QueryValue(request, "timeoutSeconds"));
  watch.timeout_s = timeout.ok() ? *timeout : 0;
  const bool initial = QueryValue(request, "sendInitialEvents") == "true";
  if (initial && !streaming_lists_) {
    return Refuse({422, "Invalid",
                   "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: "
                   "sendInitialEvents is forbidden for watch unless the WatchList feature gate is "
                   "enabled",
                   Json()});
  }
  ApiResponse response;
  const Result<uint64_t> version = ParseUint64(QueryValue(request, "resourceVersion"));
  if (version.ok() && *version > 0) {
    watch.version = *version;
    if (*version < compacted_) {
      response.body = EventLine("ERROR", StatusJson(ExpiredRefusal("watch")));
      return response;  // the stream ends
    }
  } else {
    for (const auto& [key, stored] : objects_[route.info->resource.plural]) {
      if (Selects(watch, stored.object)) response.body += EventLine("ADDED", stored.object);
    }
    if (initial) {
      Json bookmark = {{"kind", route.info->kind},
                       {"apiVersion", route.info->resource.version},
                       {"metadata",
                        {{"resourceVersion", std::to_string(version_)},
                         {"annotations", {{"k8s.io/initial-events-end", "true"}}}}}};
      if (route.info->kind == "Node") SetDefaults(*route.info, bookmark, Now());
      response.body += EventLine("BOOKMARK", bookmark);
    }
  }
  response.body += NextLines(watch);
  response.watch = std::move(watch);
  return response;
}

std::string ApiDouble::NextLines(ApiWatch& watch) {
  std::string lines;
  // All events are kept until Compact: tests are short.
  auto next = std::upper_bound(
      events_.begin(), events_.end(), watch.version,
      [](uint64_t version, const Event& event) { return version < event.version; });
  for (; next != events_.end(); ++next) {
    const Event& event = *next;
    if (event.info != watch.info) continue;
    const bool before = Selects(watch, event.before);
    const bool after = Selects(watch, event.after);
    if (after) {
      lines += EventLine(before ? "MODIFIED" : "ADDED", event.after);
    } else if (before) {
      // The last state that the watch selected, with the version of the change.
      Json object = event.before;
      object["metadata"]["resourceVersion"] = std::to_string(event.version);
      lines += EventLine("DELETED", object);
    }
  }
  watch.version = version_;
  return lines;
}

std::string ApiDouble::ExpiredLine() {
  return EventLine("ERROR", StatusJson(ExpiredRefusal("watch")));
}

std::string ApiDouble::BookmarkLine(ApiWatch& watch) const {
  return EventLine("BOOKMARK",
                   {{"kind", watch.info->kind},
                    {"apiVersion", watch.info->resource.version},
                    {"metadata", {{"resourceVersion", std::to_string(watch.version)}}}});
}

void ApiDouble::Record(const ResourceInfo& info, Json before, Json after) {
  events_.push_back({version_, &info, std::move(before), std::move(after)});
}

void ApiDouble::Compact() {
  events_.clear();
  compacted_ = ++version_;
}

const Json* ApiDouble::Find(std::string_view plural, const ObjectName& object) const {
  const auto objects = objects_.find(std::string(plural));
  if (objects == objects_.end()) return nullptr;
  const auto found = objects->second.find(KeyOf(object.namespace_name, object.name));
  return found == objects->second.end() ? nullptr : &found->second.object;
}

std::vector<ObjectName> ApiDouble::Names(std::string_view plural) const {
  std::vector<ObjectName> names;
  const auto objects = objects_.find(std::string(plural));
  if (objects == objects_.end()) return names;
  for (const auto& [key, stored] : objects->second) {
    const Json& meta = stored.object["metadata"];
    names.push_back({meta.value("namespace", ""), meta["name"]});
  }
  return names;
}

void ApiDouble::Remove(std::string_view plural, const ObjectName& object) {
  for (const char* const group : {"", "policy", "coordination.k8s.io"}) {
    const ResourceInfo* const info = FindResource(group, "v1", plural);
    if (info != nullptr) Erase(*info, KeyOf(object.namespace_name, object.name));
  }
}

void ApiDouble::Erase(const ResourceInfo& info, const std::string& key) {
  Objects& objects = objects_[info.resource.plural];
  const auto found = objects.find(key);
  if (found == objects.end()) return;
  ++version_;
  Record(info, std::move(found->second.object), Json());
  objects.erase(found);
}

ApiResponse ApiDouble::Insert(const Route& route, Json object, const std::string& manager) {
  const ResourceInfo& info = *route.info;
  Json& meta = object["metadata"];
  const Resource& resource = info.resource;
  object["kind"] = info.kind;
  object["apiVersion"] = (resource.group.empty() ? "" : resource.group + "/") + resource.version;
  if (resource.namespaced) meta["namespace"] = route.namespace_name;
  if (const auto refusal = CheckNew(info, object)) return Refuse(*refusal);
  const std::string name = meta["name"];
  Objects& objects = objects_[resource.plural];
  const std::string key = KeyOf(route.namespace_name, name);
  if (objects.contains(key)) {
    return Refuse(AlreadyExistsRefusal(info, name));
  }
  std::string digits = std::to_string(++last_uid_);
  digits.insert(0, 12 - digits.size(), '0');
  meta["uid"] = "00000000-0000-4000-8000-" + digits;
  meta["creationTimestamp"] = Now();
  meta["resourceVersion"] = std::to_string(++version_);
  if (info.has_generation) meta["generation"] = 1;
  SetDefaults(info, object, Now());
  Stored stored;
  RecordOwner(Json::object(), object, manager, &stored.owners);
  stored.object = object;
  objects[key] = std::move(stored);
  Record(info, Json(), object);
  return {201, object.dump(), std::nullopt};
}

ApiResponse ApiDouble::Create(const ApiRequest& request, const Route& route) {
  Json object = Json::parse(request.body, nullptr, false);
  if (!object.is_object() || !object["metadata"].is_object()) {
    return Refuse({400, "BadRequest",
                   "the object provided is unrecognized (must be of type " + route.info->kind +
                       "): couldn't get version/kind; json parse error: unexpected end of JSON "
                       "input (" +
                       request.body + ")",
                   Json()});
  }
  return Insert(route, std::move(object), "longhaul");
}

ApiResponse ApiDouble::Commit(const Route& route, Stored& stored, Json after,
                              const std::string& manager) {
  const ResourceInfo& info = *route.info;
  Json& meta = after["metadata"];
  const Json before = stored.object;
  const std::string version = before["metadata"]["resourceVersion"];
  if (meta.value("resourceVersion", version) != version) {
    const std::string group = info.resource.group;
    Refusal refusal = ConflictRefusal(
        info.resource.plural + (group.empty() ? "" : "." + group), route.name,
        "the object has been modified; please apply your changes to the latest version and try "
        "again");
    refusal.details["kind"] = info.resource.plural;
    if (!group.empty()) refusal.details["group"] = group;
    return Refuse(refusal);
  }
  const std::string uid = before["metadata"]["uid"];
  if (meta.value("uid", uid) != uid) {
    return Refuse(InvalidRefusal(info, route.name, "metadata.uid", "FieldValueInvalid",
                                 "Invalid value: " + meta["uid"].dump() + ": field is immutable"));
  }
  for (const char* const key : {"uid", "creationTimestamp", "generation", "namespace", "name"}) {
    if (before["metadata"].contains(key)) meta[key] = before["metadata"][key];
  }
  SetDefaults(info, after, Now());
  if (const auto refusal = CheckChange(info, before, after)) return Refuse(*refusal);
  // A patch that changes nothing gets no version and no event, as on the server.
  if (after != before) {
    meta["resourceVersion"] = std::to_string(++version_);
    if (info.has_generation && after.value("spec", Json()) != before.value("spec", Json()) &&
        route.subresource != "binding") {
      meta["generation"] = before["metadata"].value("generation", 1) + 1;
    }
    RecordOwner(before, after, manager, &stored.owners);
    stored.object = after;
    Record(info, before, after);
  }
  ApiResponse response{200, after.dump(), std::nullopt};
  // The last finalizer of an object that is being deleted.
  if (after["metadata"].contains("deletionTimestamp") &&
      after["metadata"].value("deletionGracePeriodSeconds", 0) == 0 &&
      after["metadata"].value("finalizers", Json::array()).empty()) {
    Erase(info, KeyOf(route.namespace_name, route.name));
  }
  return response;
}

ApiResponse ApiDouble::Put(const ApiRequest& request, const Route& route, Stored& stored) {
  Json object = Json::parse(request.body, nullptr, false);
  if (!object.is_object()) return Refuse({400, "BadRequest", "not an object", Json()});
  return Commit(route, stored, std::move(object), "longhaul");
}

ApiResponse ApiDouble::Patch(const ApiRequest& request, const Route& route) {
  const std::string& type = request.content_type;
  const bool apply = type.starts_with("application/apply-patch");
  if (!apply && !type.ends_with("patch+json")) {
    return Refuse({415, "UnsupportedMediaType", "415: Unsupported Media Type", Json::object()});
  }
  const Json patch = Json::parse(request.body, nullptr, false);
  if (apply) return Apply(request, route, patch);
  Objects& objects = objects_[route.info->resource.plural];
  const auto found = objects.find(KeyOf(route.namespace_name, route.name));
  if (found == objects.end()) return Refuse(NotFoundRefusal(*route.info, route.name));
  Stored& stored = found->second;
  std::optional<Json> patched = Patched(stored.object, type, patch);
  if (!patched) {
    return Refuse({422, "Invalid", "the server rejected our request due to an error in our request",
                   Json::object()});
  }
  // A subresource changes its own part only, and the main resource all but the status.
  Json after = stored.object;
  const bool has_status = route.info->kind != "ConfigMap";
  if (route.subresource == "status") {
    if (patched->contains("status")) after["status"] = (*patched)["status"];
    const Json& meta = (*patched)["metadata"];
    after["metadata"]["resourceVersion"] = meta["resourceVersion"];
    // For a custom resource the server takes the stored metadata before it compares uids.
    if (route.info->kind != "LonghaulJob") after["metadata"]["uid"] = meta["uid"];
  } else {
    after = *patched;
    if (has_status && stored.object.contains("status")) after["status"] = stored.object["status"];
  }
  const std::string manager = QueryValue(request, "fieldManager");
  return Commit(route, stored, std::move(after), manager.empty() ? "longhaul" : manager);
}

ApiResponse ApiDouble::Apply(const ApiRequest& request, const Route& route, const Json& applied) {
  const std::string manager = QueryValue(request, "fieldManager");
  if (!applied.is_object() || manager.empty()) {
    return Refuse({422, "Invalid", "PatchOptions.meta.k8s.io \"\" is invalid", Json::object()});
  }
  Objects& objects = objects_[route.info->resource.plural];
  const auto found = objects.find(KeyOf(route.namespace_name, route.name));
  if (found == objects.end()) return Insert(route, applied, manager);
  Stored& stored = found->second;
  Json after = stored.object;
  // Copies, because a conflict must leave the object as it was.
  FieldOwners owners = stored.owners;
  const bool force = QueryValue(request, "force") == "true";
  if (const auto refusal = ApplyTo(after, &owners, applied, manager, force)) {
    return Refuse(*refusal);
  }
  ApiResponse response = Commit(route, stored, std::move(after), manager);
  // The owners of fields that did not change are kept, which Commit does not compute.
  if (response.status == 200) stored.owners = std::move(owners);
  return response;
}

}  // namespace longhaul::engines::kubernetes
