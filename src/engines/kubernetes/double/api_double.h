// A small API server in memory, for tests: objects, versions, watches, and the rules of pods.
//
// It answers as kube-apiserver 1.37 does where Longhaul depends on it: testdata/transcript.txt is a
// recording of the real server, and the same exchanges with the double must give the same text. It
// has no authentication, no validation beyond what the recording shows, no garbage collection and
// no controllers. Pure: no I/O; time is set by the owner.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "engines/kubernetes/double/api_object.h"
#include "engines/kubernetes/double/api_patch.h"
#include "engines/kubernetes/double/api_request.h"

namespace longhaul::engines::kubernetes {

// An open watch: what is sent, and from where.
struct ApiWatch {
  const ResourceInfo* info = nullptr;
  std::string namespace_name;
  std::string labels;
  std::string fields;
  uint64_t version = 0;  // everything up to it has been sent
  int64_t timeout_s = 0;
};

struct ApiResponse {
  int status = 200;
  std::string body;               // of a watch: its first lines
  std::optional<ApiWatch> watch;  // the connection stays open
};

class ApiDouble {
 public:
  ApiResponse Handle(const ApiRequest& request);

  // The lines of the events that have happened since the last call for this watch.
  std::string NextLines(ApiWatch& watch);
  // Whether events that this watch has not been sent are forgotten: its stream ends with
  // ExpiredLine.
  bool Expired(const ApiWatch& watch) const { return watch.version + 1 < compacted_; }
  static std::string ExpiredLine();
  // A bookmark line with the present version.
  std::string BookmarkLine(ApiWatch& watch) const;

  void SetTime(Instant now) { now_ = now; }
  // Forgets the history up to now: older versions answer 410, and so do watches that are behind.
  void Compact();
  uint64_t version() const { return version_; }
  // The object, or null. For a resource without namespaces the namespace is empty.
  const Json* Find(std::string_view plural, const ObjectName& object) const;
  // The names of all objects, in order.
  std::vector<ObjectName> Names(std::string_view plural) const;
  // What the kubelet does at the end of a pod: removes it.
  void Remove(std::string_view plural, const ObjectName& object);
  void SetStreamingLists(bool supported) { streaming_lists_ = supported; }

 private:
  struct Stored {
    Json object;
    FieldOwners owners;
  };
  // One change; `before` and `after` are null where there is no object.
  struct Event {
    uint64_t version;
    const ResourceInfo* info;
    Json before;
    Json after;
  };
  // A request taken apart.
  struct Route {
    const ResourceInfo* info = nullptr;
    std::string namespace_name;
    std::string name;
    std::string subresource;
  };
  using Objects = std::map<std::string, Stored>;  // by "namespace/name"

  static std::optional<Route> Parse(const std::string& path);
  static std::string KeyOf(const std::string& namespace_name, const std::string& name);
  static ApiResponse Refuse(const Refusal& refusal);
  std::string Now() const;

  ApiResponse HandleCollection(const ApiRequest& request, const Route& route);
  ApiResponse HandleObject(const ApiRequest& request, const Route& route);
  ApiResponse List(const ApiRequest& request, const Route& route);
  ApiResponse Watch(const ApiRequest& request, const Route& route);
  ApiResponse Create(const ApiRequest& request, const Route& route);
  ApiResponse Put(const ApiRequest& request, const Route& route, Stored& stored);
  ApiResponse Patch(const ApiRequest& request, const Route& route);
  ApiResponse Apply(const ApiRequest& request, const Route& route, const Json& applied);
  ApiResponse Delete(const Route& route, Stored& stored, const Json& options);
  ApiResponse Bind(const ApiRequest& request, const Route& route, Stored& stored);
  ApiResponse Evict(const ApiRequest& request, const Route& route, Stored& stored);

  // Stores a changed object with a new version, unless nothing has changed.
  ApiResponse Commit(const Route& route, Stored& stored, Json after, const std::string& manager);
  ApiResponse Insert(const Route& route, Json object, const std::string& manager);
  void Erase(const ResourceInfo& info, const std::string& key);
  void Record(const ResourceInfo& info, Json before, Json after);
  std::optional<Refusal> Budget(const Json& pod);

  std::map<std::string, Objects> objects_;  // by plural
  std::vector<Event> events_;
  uint64_t version_ = 100;
  uint64_t compacted_ = 0;  // versions below this have expired
  uint64_t last_uid_ = 0;
  bool streaming_lists_ = true;
  Instant now_ = InstantFromNanoseconds(1'769'846'400'000'000'000);  // 2026-01-31T08:00:00Z
};

}  // namespace longhaul::engines::kubernetes
