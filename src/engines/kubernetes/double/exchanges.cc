#include "engines/kubernetes/double/exchanges.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "engines/kubernetes/client/watch_connection.h"
#include "engines/kubernetes/double/conversation.h"
#include "engines/kubernetes/protocol/objects/pod.h"

namespace longhaul::engines::kubernetes {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kNamespace = "default";
const char* const kPods = "/api/v1/namespaces/default/pods";
const char* const kMerge = "application/merge-patch+json";

Resource ConfigMaps() { return {"", "v1", "configmaps", true}; }
Resource Budgets() { return {"policy", "v1", "poddisruptionbudgets", true}; }
ObjectName Named(const std::string& name) { return {std::string(kNamespace), name}; }

std::string PodJson(const std::string& name, const Json& spec = Json::object(),
                    const Json& labels = Json::object()) {
  Json pod = {{"apiVersion", "v1"},
              {"kind", "Pod"},
              {"metadata", {{"name", name}}},
              {"spec", {{"containers", {{{"name", "main"}, {"image", "none"}}}}}}};
  if (!labels.empty()) pod["metadata"]["labels"] = labels;
  pod["spec"].update(spec);
  return pod.dump();
}

// Writes each change of a pod down. Events and replies come over two connections, in any order: the
// script writes the lines to the transcript where it has waited for them.
class PodRecorder final : public WatchSink {
 public:
  void OnChange(const Change& change) override {
    constexpr const char* kKinds[] = {"added", "modified", "deleted"};
    std::string line =
        "watch: " + std::string(kKinds[static_cast<int>(change.kind)]) + " " + change.meta.Key();
    if (!change.object.text.empty()) {
      const Result<Pod> pod = ReadPod(parser_, change.object);
      line += !pod.ok() ? " " + pod.status().message()
                        : " node=" + pod->node_name + (pod->meta.being_deleted ? " deleting" : "");
    }
    lines_.push_back(std::move(line));
    ++changes_;
  }
  void OnSynced() override {
    lines_.push_back("watch: synced");
    synced_ = true;
  }
  void OnTrouble(const Status& status) override {
    lines_.push_back("watch: trouble " + ToString(status));
  }

  bool synced() const { return synced_; }
  int changes() const { return changes_; }
  std::vector<std::string> TakeLines() { return std::exchange(lines_, {}); }

 private:
  std::vector<std::string> lines_;
  JsonParser parser_;
  bool synced_ = false;
  int changes_ = 0;
};

// Whether a change has come, and how many lists.
class LastChange final : public WatchSink {
 public:
  void OnChange(const Change& change) override {
    modified = modified || change.kind == ChangeKind::kModified;
  }
  void OnSynced() override { ++synced; }
  void OnTrouble(const Status&) override {}

  bool modified = false;
  int synced = 0;
};

class Script {
 public:
  Script(io::EventLoop& loop, Client& client) : client_(client), with_(loop, client) {}

  void Run() {
    MakeNodes();
    MakePods();
    Lists();
    WatchByPages();
    WatchAndBind();
    WatchAgain();
    RefusedBinds();
    Gates();
    Patches();
    Apply();
    Leases();
    Election();
    Deletions();
    Evictions();
    RawWatches();
    Expired();
    Mistakes();
  }

  const Status& status() const { return with_.status(); }
  const std::string& text() { return with_.transcript().text(); }

 private:
  void MakeNodes() {
    for (const char* const name : {"n1", "n2", "n3"}) {
      const Json node = {
          {"apiVersion", "v1"},
          {"kind", "Node"},
          {"metadata",
           {{"name", name}, {"labels", {{"kubernetes.io/hostname", name}, {"rack", "r1"}}}}}};
      with_.Do("create a node", CreateCall(Nodes(), "", node.dump()));
    }
    const Json status = {
        {"status",
         {{"capacity", {{"cpu", "1500m"}, {"memory", "1024Mi"}, {"nvidia.com/gpu", "8"}}},
          {"allocatable", {{"cpu", "0.5"}, {"memory", "1e3"}, {"nvidia.com/gpu", "8"}}},
          {"conditions", {{{"type", "Ready"}, {"status", "True"}, {"reason", "Test"}}}}}}};
    with_.Do("patch the status of a node",
             PatchCall(Nodes(), {"", "n1"}, "status", PatchKind::kStrategicMerge, status.dump()));
    with_.Do("get a node", GetCall(Nodes(), {"", "n1"}));
  }

  void MakePods() {
    plain_uid_ = TextAt(with_.Do("create a pod", CreateCall(Pods(), kNamespace, PodJson("plain"))),
                        "/metadata/uid");
    const Json gpu = {{"schedulerName", "longhaul"},
                      {"containers",
                       {{{"name", "main"},
                         {"image", "none:1"},
                         {"resources", {{"limits", {{"nvidia.com/gpu", "1"}, {"cpu", "0.1"}}}}}}}}};
    gpu_uid_ = TextAt(
        with_.Do("create a pod with a device", CreateCall(Pods(), kNamespace, PodJson("gpu", gpu))),
        "/metadata/uid");
    const Json gated = {{"schedulingGates", {{{"name", "longhaul.dev/gang"}}}}};
    gated_uid_ = TextAt(
        with_.Do("create a gated pod", CreateCall(Pods(), kNamespace, PodJson("gated", gated))),
        "/metadata/uid");
    with_.Do("create a pod again", CreateCall(Pods(), kNamespace, PodJson("plain")));
    with_.Do("get a pod that does not exist", GetCall(Pods(), Named("absent")));
  }

  void Lists() {
    const Reply first = with_.Do("list the first page", RawGet(std::string(kPods) + "?limit=2"));
    with_.Do(
        "list the next page",
        RawGet(std::string(kPods) + "?limit=2&continue=" + TextAt(first, "/metadata/continue")));
    with_.Do("list by a field", RawGet(std::string(kPods) + "?fieldSelector=metadata.name%3Dgpu"));
    with_.Do("list by a label", RawGet("/api/v1/nodes?labelSelector=rack%3Dr2"));
    with_.Do("list all namespaces by phase",
             RawGet("/api/v1/pods?fieldSelector=status.phase%21%3DPending"));
  }

  void WatchAndBind() {
    PodRecorder recorder;
    Client::WatchOptions options;
    options.resource = Pods();
    options.settings.selector =
        "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";
    const auto watch = client_.Watch(std::move(options), recorder);
    with_.Until("a complete list", [&] { return recorder.synced(); });
    Write(recorder);
    const Labels annotations = {{"longhaul.dev/rank", "3"}};
    with_.Do("bind a pod", BindCall(Named("gpu"), gpu_uid_, "n1", annotations));
    with_.Until("the event of the bind", [&] { return recorder.changes() == 4; });
    Write(recorder);
    with_.Do("get the bound pod", GetCall(Pods(), Named("gpu")));
  }

  void Write(PodRecorder& recorder) {
    for (const std::string& line : recorder.TakeLines()) with_.transcript().AddLine(line);
  }

  // The client's own list by pages, as for a server without streaming lists.
  void WatchByPages() {
    with_.transcript().AddLine("== a list by pages of the client");
    PodRecorder recorder;
    Client::WatchOptions options;
    options.resource = Pods();
    options.namespace_name = kNamespace;
    options.settings.streaming_list = false;
    options.settings.page_limit = 2;
    const auto watch = client_.Watch(std::move(options), recorder);
    with_.Until("a complete list", [&] { return recorder.synced(); });
    Write(recorder);
  }

  // The server ends the watch, and the client continues from the last version.
  void WatchAgain() {
    with_.transcript().AddLine("== a watch that the server has ended");
    LastChange last;
    Client::WatchOptions options;
    options.resource = Nodes();
    options.settings.server_timeout = std::chrono::seconds(1);
    const auto watch = client_.Watch(std::move(options), last);
    with_.Until("the watch after the first one",
                [&] { return watch.ok() && (*watch)->state().requests() >= 2; });
    with_.Quietly(PatchCall(Nodes(), {"", "n3"}, "", PatchKind::kMerge,
                            R"({"metadata":{"labels":{"late":"1"}}})"));
    with_.Until("the event", [&] { return last.modified; });
    with_.transcript().AddLine("watch: lists " + std::to_string(last.synced));
  }

  void RefusedBinds() {
    with_.Do("bind a bound pod", BindCall(Named("gpu"), gpu_uid_, "n2", {}));
    with_.Do("bind another pod of the name",
             BindCall(Named("plain"), "11111111-2222-3333-4444-555555555555", "n1", {}));
    with_.Do("bind a gated pod", BindCall(Named("gated"), gated_uid_, "n1", {}));
    with_.Do("bind a pod that does not exist", BindCall(Named("absent"), "1", "n1", {}));
    Result<Call> wrong = BindCall(Named("plain"), plain_uid_, "n1", {});
    wrong->target = std::string(kPods) + "/gated/binding";
    with_.Do("bind with two names", std::move(wrong));
    with_.Do("create a pod for a missing node", CreateCall(Pods(), kNamespace, PodJson("lost")));
    const std::string uid = TextAt(with_.Quietly(GetCall(Pods(), Named("lost"))), "/metadata/uid");
    with_.Do("bind to a node that does not exist", BindCall(Named("lost"), uid, "n9", {}));
  }

  void Gates() {
    const Json add = {{"spec", {{"schedulingGates", {{{"name", "longhaul.dev/late"}}}}}}};
    with_.Do("add a gate", PatchCall(Pods(), Named("plain"), "", PatchKind::kMerge, add.dump()));
    const Json lift = {{"spec", {{"schedulingGates", nullptr}}}};
    with_.Do("lift the gates",
             PatchCall(Pods(), Named("gated"), "", PatchKind::kMerge, lift.dump()));
    with_.Do("bind the pod without gates", BindCall(Named("gated"), gated_uid_, "n2", {}));
  }

  void Patches() {
    const Json label = {{"metadata", {{"labels", {{"a", "1"}, {"b", "2"}}}}}};
    with_.Do("merge labels",
             PatchCall(Pods(), Named("plain"), "", PatchKind::kMerge, label.dump()));
    const Json change = {{{"op", "test"}, {"path", "/metadata/labels/a"}, {"value", "1"}},
                         {{"op", "remove"}, {"path", "/metadata/labels/b"}}};
    with_.Do("patch by JSON patch",
             PatchCall(Pods(), Named("plain"), "", PatchKind::kJson, change.dump()));
    with_.Do("patch by JSON patch whose test fails",
             PatchCall(Pods(), Named("plain"), "", PatchKind::kJson,
                       R"([{"op":"test","path":"/metadata/labels/a","value":"2"}])"));
    const Json waits = {{"status",
                         {{"conditions",
                           {{{"type", "PodScheduled"},
                             {"status", "False"},
                             {"reason", "Unschedulable"},
                             {"message", "no node has 9 devices"}}}}}}};
    with_.Do("patch the status of a pod",
             PatchCall(Pods(), Named("plain"), "status", PatchKind::kStrategicMerge, waits.dump()));
    const Json stale = {{"metadata", {{"resourceVersion", "1"}, {"labels", {{"c", "3"}}}}}};
    with_.Do("patch an old version",
             PatchCall(Pods(), Named("plain"), "", PatchKind::kMerge, stale.dump()));
    with_.Do("change a bound node name", PatchCall(Pods(), Named("gpu"), "", PatchKind::kMerge,
                                                   R"({"spec":{"nodeName":"n3"}})"));
    with_.Do("cordon a node", PatchCall(Nodes(), {"", "n2"}, "", PatchKind::kMerge,
                                        R"({"spec":{"unschedulable":true}})"));
  }

  void Apply() {
    const auto map = [](const Json& data) {
      return Json{{"apiVersion", "v1"},
                  {"kind", "ConfigMap"},
                  {"metadata", {{"name", "job"}, {"namespace", kNamespace}}},
                  {"data", data}}
          .dump();
    };
    with_.Do("apply an object that does not exist",
             ApplyCall(ConfigMaps(), Named("job"), "", map({{"a", "1"}, {"b", "2"}}), false));
    with_.Do("apply it unchanged",
             ApplyCall(ConfigMaps(), Named("job"), "", map({{"a", "1"}, {"b", "2"}}), false));
    with_.Do("apply it without a field",
             ApplyCall(ConfigMaps(), Named("job"), "", map({{"a", "1"}}), false));
    with_.Do("another manager changes a field",
             RawCall("PATCH", "/api/v1/namespaces/default/configmaps/job?fieldManager=other",
                     kMerge, R"({"data":{"a":"9","c":"3"}})"));
    with_.Do("apply against the other manager",
             ApplyCall(ConfigMaps(), Named("job"), "", map({{"a", "2"}}), false));
    with_.Do("apply by force", ApplyCall(ConfigMaps(), Named("job"), "", map({{"a", "2"}}), true));
  }

  void Leases() {
    const Json lease = {{"apiVersion", "coordination.k8s.io/v1"},
                        {"kind", "Lease"},
                        {"metadata", {{"name", "leader"}}},
                        {"spec",
                         {{"holderIdentity", "one"},
                          {"leaseDurationSeconds", 15},
                          {"renewTime", "2026-01-31T08:00:00.000000Z"}}}};
    const Reply made =
        with_.Do("create a lease", CreateCall(kubernetes::Leases(), kNamespace, lease.dump()));
    Json renewed = Json::parse(made.body, nullptr, false);
    renewed["spec"]["holderIdentity"] = "two";
    const std::string target = "/apis/coordination.k8s.io/v1/namespaces/default/leases/leader";
    with_.Do("take the lease", RawCall("PUT", target, "application/json", renewed.dump()));
    with_.Do("take the lease from an old version",
             RawCall("PUT", target, "application/json", renewed.dump()));
  }

  // As leader/election.h writes.
  void Election() {
    const auto patch = [this](std::string_view label, const std::string& version,
                              const Json& spec) {
      const Json body = {{"metadata", {{"resourceVersion", version}}}, {"spec", spec}};
      const Reply reply = with_.Do(label, PatchCall(kubernetes::Leases(), Named("election"), "",
                                                    PatchKind::kMerge, body.dump()));
      return TextAt(reply, "/metadata/resourceVersion");
    };
    const Json take = {{"holderIdentity", "one"},
                       {"leaseDurationSeconds", 15},
                       {"acquireTime", "2026-01-31T08:00:00.000000Z"},
                       {"renewTime", "2026-01-31T08:00:00.000000Z"},
                       {"leaseTransitions", 0}};
    patch("take a lease that does not exist", "1", take);
    const Json lease = {{"apiVersion", "coordination.k8s.io/v1"},
                        {"kind", "Lease"},
                        {"metadata", {{"name", "election"}}},
                        {"spec", {{"leaseDurationSeconds", 15}}}};
    const Reply made = with_.Do("create a lease without a holder",
                                CreateCall(kubernetes::Leases(), kNamespace, lease.dump()));
    with_.Do("create it again", CreateCall(kubernetes::Leases(), kNamespace, lease.dump()));
    const std::string version = TextAt(made, "/metadata/resourceVersion");
    const std::string taken = patch("take it by a merge patch", version, take);
    patch("take the version before by a merge patch", version, take);
    const std::string renewed =
        patch("renew it", taken, {{"renewTime", "2026-01-31T08:00:02.000000Z"}});
    with_.transcript().AddLine("the version is another one: " + std::to_string(renewed != taken));
    const std::string same = patch("renew it with the same time", renewed,
                                   {{"renewTime", "2026-01-31T08:00:02.000000Z"}});
    with_.transcript().AddLine("the version is another one: " + std::to_string(same != renewed));
    patch("write a duration of zero", same, {{"leaseDurationSeconds", 0}});
    patch("release it", same,
          {{"holderIdentity", ""},
           {"leaseDurationSeconds", 1},
           {"renewTime", "2026-01-31T08:00:04.000000Z"}});
  }

  void Deletions() {
    with_.Do("delete another pod of the name",
             DeleteCall(Pods(), Named("plain"), "11111111-2222-3333-4444-555555555555", {}));
    with_.Do("delete a bound pod", DeleteCall(Pods(), Named("gpu"), gpu_uid_, {}));
    with_.Do("get the pod that is being deleted", GetCall(Pods(), Named("gpu")));
    with_.Do("delete it at once", DeleteCall(Pods(), Named("gpu"), gpu_uid_, 0));
    with_.Do("get the deleted pod", GetCall(Pods(), Named("gpu")));
    with_.Do("delete a pod that is not bound", DeleteCall(Pods(), Named("plain"), plain_uid_, {}));
    with_.Do("get the pod that was not bound", GetCall(Pods(), Named("plain")));
  }

  void Evictions() {
    const Json labels = {{"app", "guarded"}};
    const std::string uid = TextAt(
        with_.Quietly(CreateCall(Pods(), kNamespace, PodJson("guarded", Json::object(), labels))),
        "/metadata/uid");
    with_.Quietly(BindCall(Named("guarded"), uid, "n1", {}));
    with_.Quietly(PatchCall(Pods(), Named("guarded"), "status", PatchKind::kStrategicMerge,
                            R"({"status":{"phase":"Running","conditions":)"
                            R"([{"type":"Ready","status":"True"}]}})"));
    const Json budget = {{"apiVersion", "policy/v1"},
                         {"kind", "PodDisruptionBudget"},
                         {"metadata", {{"name", "guard"}}},
                         {"spec", {{"minAvailable", 1}, {"selector", {{"matchLabels", labels}}}}}};
    with_.Quietly(CreateCall(Budgets(), kNamespace, budget.dump()));
    // What the disruption controller would write.
    with_.Quietly(PatchCall(Budgets(), Named("guard"), "status", PatchKind::kMerge,
                            R"({"status":{"observedGeneration":1,"disruptionsAllowed":0,)"
                            R"("currentHealthy":1,"desiredHealthy":1,"expectedPods":1}})"));
    with_.Do("evict against a disruption budget", EvictCall(Named("guarded"), uid, {}));
    with_.Quietly(PatchCall(Budgets(), Named("guard"), "status", PatchKind::kMerge,
                            R"({"status":{"disruptionsAllowed":1}})"));
    with_.Do("evict within the disruption budget", EvictCall(Named("guarded"), uid, {}));
    with_.Do("get the evicted pod", GetCall(Pods(), Named("guarded")));
    with_.Do("evict another pod of the name",
             EvictCall(Named("lost"), "11111111-2222-3333-4444-555555555555", {}));
    with_.Do("evict a pod that does not exist", EvictCall(Named("absent"), "1", {}));
  }

  void RawWatches() {
    const std::string watch = "?watch=1&allowWatchBookmarks=true&timeoutSeconds=1";
    const Reply list = with_.Quietly(RawGet("/api/v1/nodes"));
    const std::string version = TextAt(list, "/metadata/resourceVersion");
    with_.Do("a streaming list",
             RawGet("/api/v1/nodes" + watch +
                    "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"));
    with_.Quietly(PatchCall(Nodes(), {"", "n3"}, "", PatchKind::kMerge,
                            R"({"metadata":{"labels":{"rack":"r2"}}})"));
    with_.Do("resume a watch", RawGet("/api/v1/nodes" + watch + "&resourceVersion=" + version));
    with_.Do(
        "resume a watch by label, which the change left",
        RawGet("/api/v1/nodes" + watch + "&labelSelector=rack%3Dr1&resourceVersion=" + version));
  }

  void Expired() {
    const std::string old =
        std::string(kPods) + "?limit=1&resourceVersion=1&resourceVersionMatch=Exact";
    // The server compacts its history at intervals.
    with_.Until("the compaction", [&] { return with_.Quietly(RawGet(old)).http_status != 200; });
    with_.Do("list an expired version", RawGet(old));
    // The server keeps no cache of events, so that its history is that of the storage.
    with_.Do(
        "watch an expired version",
        RawGet("/api/v1/namespaces/default/events?watch=1&timeoutSeconds=1&resourceVersion=1"));
  }

  void Mistakes() {
    with_.Do("create a pod with a wrong name",
             CreateCall(Pods(), kNamespace, PodJson("Not_A_Name")));
    with_.Do("create what is no object", CreateCall(Pods(), kNamespace, "{\"kind\""));
    with_.Do("use a resource that does not exist", RawGet("/apis/longhaul.dev/v9/things"));
    with_.Do("delete a collection's method",
             RawCall("PUT", "/api/v1/nodes", "application/json", "{}"));
    with_.Do("patch with an unknown type",
             RawCall("PATCH", "/api/v1/nodes/n1", "text/plain", "{}"));
  }

  Client& client_;
  Conversation with_;
  std::string plain_uid_;
  std::string gpu_uid_;
  std::string gated_uid_;
};

}  // namespace

Result<std::string> RunExchanges(io::EventLoop& loop, Client& client) {
  Script script(loop, client);
  script.Run();
  RETURN_IF_ERROR(script.status());
  return script.text();
}

}  // namespace longhaul::engines::kubernetes
