// One request to the API server, described: its HTTP form, and what it does in the API's terms.
//
// Pure. The functions below make the calls that the client offers. Each refuses names that cannot
// be names of objects (they would change the path), and each body is JSON text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "engines/kubernetes/protocol/objects/object_meta.h"
#include "engines/kubernetes/protocol/traffic.h"

namespace longhaul::engines::kubernetes {

// A resource of the API: {"", "v1", "pods"} or {"policy", "v1", "poddisruptionbudgets"}.
struct Resource {
  std::string group;  // empty: the core group
  std::string version;
  std::string plural;
  bool namespaced = true;
};
Resource Pods();
Resource Nodes();
Resource Leases();
Resource VolumeClaims();
Resource Volumes();
Resource StorageClasses();

// One object. The namespace is empty for a resource without namespaces.
struct ObjectName {
  std::string namespace_name;
  std::string name;
};

struct Call {
  std::string verb;  // of RBAC: get, list, watch, create, patch, delete
  Resource resource;
  std::string subresource;  // binding, eviction, status, or empty
  ObjectName object;        // the name is empty for list, watch and create

  std::string method;
  std::string target;  // path and query
  std::string content_type;
  std::string accept = "application/json";
  std::string body;
  TrafficClass traffic = TrafficClass::kStatus;
  // The longest time until the reply, with the time in queues and all repetitions. Without it each
  // request has the limit of the HTTP client, and the time in queues is not limited.
  std::optional<Duration> limit;

  // "create pods/binding in namespace training", for messages.
  std::string Text() const;
};

enum class PatchKind { kMerge, kJson, kStrategicMerge };

Result<Call> GetCall(const Resource& resource, const ObjectName& object);
// The path without a query, of the resource in all namespaces or in one.
Result<Call> ListCall(const Resource& resource, std::string_view namespace_name);
Result<Call> CreateCall(const Resource& resource, std::string_view namespace_name,
                        std::string body);
// `subresource` is empty or "status".
Result<Call> PatchCall(const Resource& resource, const ObjectName& object,
                       std::string_view subresource, PatchKind kind, std::string body);
// Server-side apply as the field manager "longhaul". With `force` the fields of other managers are
// taken over; otherwise they are a conflict.
Result<Call> ApplyCall(const Resource& resource, const ObjectName& object,
                       std::string_view subresource, std::string body, bool force);
// Binds a pod of this uid to a node. The annotations are copied to the pod in the same write. The
// API server accepts a node that does not exist: the caller checks the node.
Result<Call> BindCall(const ObjectName& pod, std::string_view pod_uid, std::string_view node,
                      const Labels& annotations);
// Deletes the object of this uid; without a grace period with its own one.
Result<Call> DeleteCall(const Resource& resource, const ObjectName& object, std::string_view uid,
                        std::optional<int64_t> grace_seconds);
// Requests a token of a service account for one audience (TokenRequest), for so many seconds.
Result<Call> TokenCall(const ObjectName& account, std::string_view audience, int64_t seconds);
// The public keys with which the API server signs such tokens (a JWK set).
Call TokenKeysCall();
// Evicts the pod of this uid, within its disruption budgets.
Result<Call> EvictCall(const ObjectName& pod, std::string_view uid,
                       std::optional<int64_t> grace_seconds);

}  // namespace longhaul::engines::kubernetes
