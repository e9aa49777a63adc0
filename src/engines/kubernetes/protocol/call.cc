#include "engines/kubernetes/protocol/call.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"

namespace longhaul::engines::kubernetes {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kJson = "application/json";
constexpr size_t kMaxNameCharacters = 253;

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == ':';
}

// Names of objects, namespaces and resources: a superset of what the API server accepts that needs
// no escaping in a path.
Status CheckName(std::string_view what, std::string_view name) {
  const bool fits = !name.empty() && name.size() <= kMaxNameCharacters && name != "." &&
                    name != ".." && std::all_of(name.begin(), name.end(), IsNameCharacter);
  if (fits) return Status();
  return InvalidArgument(std::string(what) + " '" + Printable(name) +
                         "' is not a name of an object, expected 1 to 253 letters, digits, -, . "
                         "or _");
}

Result<Call> Make(std::string_view verb, std::string_view method, const Resource& resource,
                  const ObjectName& object, std::string_view subresource = {}) {
  Call call;
  call.verb = verb;
  call.method = method;
  call.resource = resource;
  call.object = object;
  call.subresource = subresource;
  call.target = resource.group.empty() ? "/api/" : "/apis/" + resource.group + "/";
  call.target += resource.version;
  if (!object.namespace_name.empty()) {
    RETURN_IF_ERROR(CheckName("namespace", object.namespace_name));
    call.target += "/namespaces/" + object.namespace_name;
  }
  RETURN_IF_ERROR(CheckName("resource", resource.plural));
  call.target += "/" + resource.plural;
  if (!object.name.empty()) {
    RETURN_IF_ERROR(CheckName(resource.plural, object.name));
    call.target += "/" + object.name;
  }
  if (!subresource.empty()) call.target += "/" + std::string(subresource);
  return call;
}

Result<Call> MakeForObject(std::string_view verb, std::string_view method, const Resource& resource,
                           const ObjectName& object, std::string_view subresource = {}) {
  RETURN_IF_ERROR(CheckName(resource.plural, object.name));
  if (resource.namespaced) RETURN_IF_ERROR(CheckName("namespace", object.namespace_name));
  return Make(verb, method, resource, object, subresource);
}

Status CheckText(std::string_view what, std::string_view text) {
  if (IsUtf8(text)) return Status();
  return InvalidArgument(std::string(what) + " '" + Printable(text) + "' is not UTF-8 text");
}

TrafficClass ClassOf(const Resource& resource, std::string_view subresource) {
  // A lease that is renewed late costs the leadership, so it has a class of its own.
  if (subresource.empty() && resource.plural == "leases") return TrafficClass::kLease;
  if (resource.plural == "events") return TrafficClass::kEvent;
  return TrafficClass::kStatus;
}

Json DeleteOptions(std::string_view uid, std::optional<int64_t> grace_seconds) {
  Json options = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  if (grace_seconds) options["gracePeriodSeconds"] = *grace_seconds;
  // Another object of the same name may have been created since the uid was read.
  options["preconditions"] = {{"uid", uid}};
  return options;
}

}  // namespace

Resource Pods() { return {"", "v1", "pods", true}; }
Resource Nodes() { return {"", "v1", "nodes", false}; }
Resource Leases() { return {"coordination.k8s.io", "v1", "leases", true}; }
Resource VolumeClaims() { return {"", "v1", "persistentvolumeclaims", true}; }
Resource Volumes() { return {"", "v1", "persistentvolumes", false}; }
Resource StorageClasses() { return {"storage.k8s.io", "v1", "storageclasses", false}; }

std::string Call::Text() const {
  std::string text = verb + " " + resource.plural;
  if (!subresource.empty()) text += "/" + subresource;
  if (!resource.group.empty()) text += " of group " + resource.group;
  if (!object.name.empty()) text += " " + object.name;
  if (!object.namespace_name.empty()) text += " in namespace " + object.namespace_name;
  return text;
}

Result<Call> GetCall(const Resource& resource, const ObjectName& object) {
  ASSIGN_OR_RETURN(Call call, MakeForObject("get", "GET", resource, object));
  call.traffic = ClassOf(resource, "");
  return call;
}

Result<Call> ListCall(const Resource& resource, std::string_view namespace_name) {
  return Make("list", "GET", resource, {std::string(namespace_name), ""});
}

Result<Call> CreateCall(const Resource& resource, std::string_view namespace_name,
                        std::string body) {
  if (resource.namespaced) RETURN_IF_ERROR(CheckName("namespace", namespace_name));
  ASSIGN_OR_RETURN(Call call, Make("create", "POST", resource, {std::string(namespace_name), ""}));
  call.content_type = kJson;
  call.body = std::move(body);
  call.traffic = ClassOf(resource, "");
  return call;
}

Result<Call> PatchCall(const Resource& resource, const ObjectName& object,
                       std::string_view subresource, PatchKind kind, std::string body) {
  ASSIGN_OR_RETURN(Call call, MakeForObject("patch", "PATCH", resource, object, subresource));
  switch (kind) {
    case PatchKind::kMerge:
      call.content_type = "application/merge-patch+json";
      break;
    case PatchKind::kJson:
      call.content_type = "application/json-patch+json";
      break;
    case PatchKind::kStrategicMerge:
      call.content_type = "application/strategic-merge-patch+json";
      break;
  }
  call.body = std::move(body);
  call.traffic = ClassOf(resource, subresource);
  return call;
}

Result<Call> ApplyCall(const Resource& resource, const ObjectName& object,
                       std::string_view subresource, std::string body, bool force) {
  ASSIGN_OR_RETURN(Call call, MakeForObject("patch", "PATCH", resource, object, subresource));
  call.target += force ? "?fieldManager=longhaul&force=true" : "?fieldManager=longhaul";
  call.content_type = "application/apply-patch+yaml";  // JSON is YAML
  call.body = std::move(body);
  call.traffic = ClassOf(resource, subresource);
  return call;
}

Result<Call> BindCall(const ObjectName& pod, std::string_view pod_uid, std::string_view node,
                      const Labels& annotations) {
  ASSIGN_OR_RETURN(Call call, MakeForObject("create", "POST", Pods(), pod, "binding"));
  RETURN_IF_ERROR(CheckName("node", node));
  RETURN_IF_ERROR(CheckName("uid", pod_uid));
  // Written by hand, because it is the body of every bind, and a tree of JSON takes as long as
  // reading a pod. The names have been checked: they have no characters to escape. The namespace is
  // in the path; in the body it would only be checked against it.
  call.body = R"({"apiVersion":"v1","kind":"Binding","metadata":{"name":")" + pod.name +
              R"(","uid":")" + std::string(pod_uid) + '"';
  std::string_view before = R"(,"annotations":{)";
  for (const auto& [key, value] : annotations) {
    RETURN_IF_ERROR(CheckText("annotation", key));
    RETURN_IF_ERROR(CheckText("the value of annotation " + key, value));
    call.body += std::string(before) + Json(key).dump() + ':' + Json(value).dump();
    before = ",";
  }
  if (!annotations.empty()) call.body += '}';
  call.body +=
      R"(},"target":{"apiVersion":"v1","kind":"Node","name":")" + std::string(node) + R"("}})";
  call.content_type = kJson;
  call.traffic = TrafficClass::kBind;
  return call;
}

Result<Call> DeleteCall(const Resource& resource, const ObjectName& object, std::string_view uid,
                        std::optional<int64_t> grace_seconds) {
  ASSIGN_OR_RETURN(Call call, MakeForObject("delete", "DELETE", resource, object));
  RETURN_IF_ERROR(CheckName("uid", uid));
  call.content_type = kJson;
  call.body = DeleteOptions(uid, grace_seconds).dump();
  // A deletion makes room for a bind, or rolls one back.
  call.traffic = TrafficClass::kBind;
  return call;
}

Result<Call> TokenCall(const ObjectName& account, std::string_view audience, int64_t seconds) {
  const Resource accounts = {"", "v1", "serviceaccounts", true};
  ASSIGN_OR_RETURN(Call call, MakeForObject("create", "POST", accounts, account, "token"));
  call.content_type = kJson;
  call.body =
      Json{{"apiVersion", "authentication.k8s.io/v1"},
           {"kind", "TokenRequest"},
           {"spec",
            {{"audiences", Json::array({std::string(audience)})}, {"expirationSeconds", seconds}}}}
          .dump();
  return call;
}

Call TokenKeysCall() {
  Call call;
  call.verb = "get";
  call.method = "GET";
  call.resource.plural = "openid/v1/jwks";
  call.target = "/openid/v1/jwks";
  call.accept = "application/jwk-set+json";
  return call;
}

Result<Call> EvictCall(const ObjectName& pod, std::string_view uid,
                       std::optional<int64_t> grace_seconds) {
  ASSIGN_OR_RETURN(Call call, MakeForObject("create", "POST", Pods(), pod, "eviction"));
  RETURN_IF_ERROR(CheckName("uid", uid));
  const Json eviction = {{"apiVersion", "policy/v1"},
                         {"kind", "Eviction"},
                         {"metadata", {{"name", pod.name}, {"namespace", pod.namespace_name}}},
                         {"deleteOptions", DeleteOptions(uid, grace_seconds)}};
  call.content_type = kJson;
  call.body = eviction.dump();
  call.traffic = TrafficClass::kBind;
  return call;
}

}  // namespace longhaul::engines::kubernetes
