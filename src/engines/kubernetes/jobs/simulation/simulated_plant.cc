#include "engines/kubernetes/jobs/simulation/simulated_plant.h"

#include <algorithm>

#include "base/check.h"
#include "engines/kubernetes/jobs/job_pod.h"
#include "engines/kubernetes/protocol/call.h"

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::seconds;

constexpr const char* kPods = "/api/v1/namespaces/ns/pods/";
// A pod of a node that does not answer is deleted after this time.
constexpr Duration kEvicted = seconds(40);

std::string TextAt(const Json& object, const char* key) {
  const auto found = object.find(std::string(key));
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

Duration SimulatedPlant::Seconds(uint64_t least, uint64_t most) {
  return std::chrono::milliseconds(
      static_cast<int64_t>(1'000 * least + rng_.Below(1'000 * (most - least) + 1)));
}

void SimulatedPlant::AddNodes(int nodes) {
  for (int i = 0; i < nodes; ++i) nodes_["n" + std::to_string(nodes_.size())];
}

void SimulatedPlant::AddRun(const std::string& job_uid, double needed, bool fails) {
  runs_[job_uid] = {needed, 0, 0, fails};
}

ApiResponse SimulatedPlant::Do(const std::string& method, const std::string& path, const Json& body,
                               const std::string& type) {
  ApiRequest request = RequestFor(method, path, body.dump());
  request.content_type = type;
  ApiResponse response = api_.Handle(request);
  changed_();
  return response;
}

void SimulatedPlant::Tick(Instant now) {
  now_ = now;
  Refresh();
  Schedule();
  for (const Seen& pod : pods_) TendPod(pod);
  Refresh();
  DropContainers();
  for (auto& [uid, container] : containers_) {
    if (container.controller) RunController(uid, container);
  }
}

void SimulatedPlant::Refresh() {
  if (seen_version_ == api_.version()) return;
  seen_version_ = api_.version();
  pods_.clear();
  for (const ObjectName& name : api_.Names("pods")) {
    const Json& pod = *api_.Find("pods", name);
    const Json& meta = pod["metadata"];
    const Json& spec = pod["spec"];
    Seen seen;
    seen.name = name.name;
    seen.uid = meta["uid"];
    seen.node = TextAt(spec, "nodeName");
    if (meta.contains("ownerReferences")) seen.owner = meta["ownerReferences"][0]["uid"];
    const Json& labels = meta["labels"];
    seen.controller = TextAt(labels, "longhaul.dev/role") == "controller";
    if (!seen.controller) {
      seen.index = static_cast<uint32_t>(std::stoul(TextAt(labels, "longhaul.dev/index")));
    }
    seen.group = TextAt(labels, "scheduling.x-k8s.io/pod-group");
    seen.extra = labels.contains("longhaul.dev/extra");
    const Json annotations = meta.value("annotations", Json::object());
    seen.job_file = TextAt(annotations, "longhaul.dev/job-file");
    seen.template_hash = TextAt(annotations, "longhaul.dev/template");
    seen.files = {TextAt(annotations, "longhaul.dev/controller"),
                  TextAt(annotations, "longhaul.dev/authority")};
    seen.deleting = meta.contains("deletionTimestamp");
    seen.gated = spec.contains("schedulingGates") && !spec["schedulingGates"].empty();
    const std::string phase = TextAt(pod["status"], "phase");
    seen.ended = phase == "Succeeded" || phase == "Failed";
    pods_.push_back(std::move(seen));
  }
}

bool SimulatedPlant::Bind(const Seen& pod, const std::string& node) {
  const Result<Call> call = BindCall({"ns", pod.name}, pod.uid, node, {});
  CHECK(call.ok()) << call.status();
  return Do("POST", call->target, Json::parse(call->body)).status == 201;
}

void SimulatedPlant::Schedule() {
  std::set<std::string> taken;
  for (const Seen& pod : pods_) {
    if (!pod.controller && !pod.ended) taken.insert(pod.node);
  }
  std::vector<std::string> up, free;
  for (const auto& [name, node] : nodes_) {
    if (node.state != NodeState::kUp) continue;
    up.push_back(name);
    if (!taken.contains(name)) free.push_back(name);
  }
  // By whether they are extra, so that the others are first.
  std::map<std::pair<bool, std::string>, std::vector<const Seen*>> gangs;
  for (const Seen& pod : pods_) {
    if (pod.owner.empty() || !pod.node.empty() || pod.gated || pod.deleting || pod.ended) continue;
    if (!pod.controller) {
      gangs[{pod.extra, pod.group}].push_back(&pod);
    } else if (!up.empty()) {
      Bind(pod, up[rng_.Below(up.size())]);
    }
  }
  for (const auto& [group, gang] : gangs) {
    if (gang.size() > free.size()) {
      if (!group.first) EvictExtra();
      continue;
    }
    for (const Seen* pod : gang) {
      if (!Bind(*pod, free.back())) continue;
      free.pop_back();
      grown_ += pod->extra ? 1 : 0;
    }
  }
}

void SimulatedPlant::EvictExtra() {
  std::vector<std::string> extra;
  for (const Seen& pod : pods_) {
    if (pod.extra && !pod.node.empty() && !pod.deleting && !pod.ended) extra.push_back(pod.name);
  }
  if (extra.empty()) return;
  const std::string& name = extra[rng_.Below(extra.size())];
  log_("eviction of the extra worker " + name);
  Do("DELETE", kPods + name, Json::object());
}

void SimulatedPlant::TendPod(const Seen& pod) {
  // The garbage collector: the owner is gone.
  bool owned = pod.owner.empty();
  for (const ObjectName& job : api_.Names("longhauljobs")) {
    owned = owned || api_.Find("longhauljobs", job)->at("metadata")["uid"] == pod.owner;
  }
  if (!owned && !pod.deleting) Do("DELETE", kPods + pod.name, Json::object());
  if (pod.node.empty() || pod.owner.empty()) return;
  const Node& node = nodes_.at(pod.node);
  if (node.state != NodeState::kUp) return Collect(pod, node);
  const auto [at, is_new] = containers_.try_emplace(pod.uid);
  Container& container = at->second;
  if (is_new) Start(pod, container);
  if (pod.deleting) {
    if (!container.ends_at) container.ends_at = now_ + Seconds(1, 20);
    if (now_ < *container.ends_at) return;
    log_("kubelet removes " + pod.name);
    containers_.erase(at);
    api_.Remove("pods", ObjectName{"ns", pod.name});
    changed_();
    return;
  }
  if (pod.ended) {
    container.alive = false;
    return;
  }
  if (container.finished) return Publish(container);
  if (!container.alive && now_ >= container.starts_at) {
    container.alive = true;
    container.written = false;
  }
  if (container.alive && !container.written) WriteState(container);
  if (!container.controller) TendFiles(pod, container);
}

// What the node's lifecycle controller and the pod garbage collector do.
void SimulatedPlant::Collect(const Seen& pod, const Node& node) {
  if (now_ > node.since + node.forced) {
    log_("forced removal of " + pod.name);
    api_.Remove("pods", ObjectName{"ns", pod.name});
    changed_();
  } else if (now_ > node.since + kEvicted && !pod.deleting) {
    log_("eviction of " + pod.name);
    Do("DELETE", kPods + pod.name, Json::object());
  }
}

void SimulatedPlant::Start(const Seen& pod, Container& container) {
  container.pod = pod.name;
  container.uid = pod.uid;
  container.node = pod.node;
  container.job_uid = pod.owner;
  container.controller = pod.controller;
  container.ip = "10.0.0." + std::to_string(++last_ip_);
  container.starts_at = now_ + Seconds(1, 5);
  container.files = container.next_files = pod.files;
  if (!pod.controller) return;
  const Json file = Json::parse(pod.job_file);
  const Json& resources = file["resources"];
  container.minimum =
      resources.contains("minimum_nodes") ? resources["minimum_nodes"] : resources["nodes"];
}

// Another pod of the same name is left alone.
void SimulatedPlant::PatchStatus(const Container& container, const Json& status) {
  Patch(kPods + container.pod + "/status",
        {{"metadata", {{"uid", container.uid}}}, {"status", status}});
}

void SimulatedPlant::WriteState(Container& container) {
  Json state = {{"running", Json::object()}};
  if (!container.alive) {
    state = {{"waiting", {{"reason", "CrashLoopBackOff"}, {"message", "it has ended"}}}};
  }
  const char* const name = container.controller ? "controller" : "worker";
  Json status = {
      {"phase", "Running"},
      {"podIP", container.ip},
      {"containerStatuses",
       Json::array({{{"name", name}, {"restartCount", container.restarts}, {"state", state}}})}};
  if (container.controller) {
    const Json ended = {{"terminated", {{"exitCode", 0}, {"message", Authority(container.uid)}}}};
    status["initContainerStatuses"] = Json::array({{{"name", "authority"}, {"state", ended}}});
  }
  PatchStatus(container, status);
  container.written = true;
}

void SimulatedPlant::Publish(const Container& container) {
  const Run& run = runs_.at(container.job_uid);
  const Json outcome = {{"outcome", run.fails ? "failed" : "succeeded"},
                        {"message", "it is over"},
                        {"restarts", run.restarts},
                        {"goodput", 0.5}};
  const Json state = {{"terminated", {{"exitCode", 0}, {"message", outcome.dump()}}}};
  log_("outcome of " + container.pod);
  PatchStatus(container,
              {{"phase", "Succeeded"},
               {"containerStatuses", Json::array({{{"name", "controller"}, {"state", state}}})}});
}

// A kubelet replaces the files of a pod some time after its annotations have changed.
void SimulatedPlant::TendFiles(const Seen& pod, Container& container) {
  if (pod.files != container.next_files) {
    container.next_files = pod.files;
    if (!container.files_at) container.files_at = now_ + Seconds(1, 90);
  }
  if (!container.files_at || now_ < *container.files_at) return;
  container.files = container.next_files;
  container.files_at.reset();
}

// Those whose pod is gone: where a kubelet is, it ends them.
void SimulatedPlant::DropContainers() {
  std::set<std::string> present;
  for (const Seen& pod : pods_) present.insert(pod.uid);
  std::erase_if(containers_, [&](const auto& each) {
    return !present.contains(each.first) && IsUp(each.second);
  });
}

void SimulatedPlant::RunController(const std::string& uid, Container& controller) {
  const bool works = controller.alive && !controller.ends_at && !controller.finished;
  const std::pair<std::string, std::string> place{controller.ip + ":8701", Authority(uid)};
  controller.connected.clear();
  for (auto& [worker_uid, worker] : containers_) {
    if (worker.controller || worker.job_uid != controller.job_uid) continue;
    const bool follows = works && worker.alive && !worker.hung && worker.files == place;
    if (!follows) {
      if (worker.follows == uid) worker.follows.clear();
      continue;
    }
    if (worker.follows != uid) {
      worker.follows = uid;
      worker.connected_at = now_ + Seconds(1, 10);
    }
    if (now_ >= worker.connected_at) controller.connected.insert(worker.pod);
  }
  Run& run = runs_.at(controller.job_uid);
  const bool trains = works && controller.connected.size() >= controller.minimum;
  if (controller.trains && !trains && works) ++run.restarts;
  controller.trains = trains;
  controller.has_trained = works && (controller.has_trained || trains);
  if (!trains) return;
  run.done += 1;
  if (run.done < run.needed) return;
  controller.finished = true;
  controller.alive = false;
  controller.trains = false;
}

void SimulatedPlant::BreakNode() {
  auto at = nodes_.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(rng_.Below(nodes_.size())));
  Node& node = at->second;
  if (node.state != NodeState::kUp) return;
  const bool down = rng_.Below(2) == 0;
  log_("node " + at->first + (down ? " is down" : " has no kubelet"));
  node = {down ? NodeState::kDown : NodeState::kWithoutKubelet, now_, Seconds(60, 400)};
  ++hurt_;
  if (!down) return;
  for (auto& [uid, container] : containers_) {
    if (container.node == at->first) container.alive = container.trains = false;
  }
}

void SimulatedPlant::RepairNodes(bool all) {
  for (auto& [name, node] : nodes_) {
    if (node.state == NodeState::kUp || (!all && rng_.Below(12) != 0)) continue;
    log_("node " + name + " is back");
    const bool restarted = node.state == NodeState::kDown;
    node.state = NodeState::kUp;
    if (!restarted) continue;
    for (auto& [uid, container] : containers_) {
      if (container.node != name || container.finished) continue;
      // Its pod gets another network.
      container.ip = "10.0.0." + std::to_string(++last_ip_);
      container.starts_at = now_ + Seconds(1, 20);
      container.alive = container.hung = false;
      ++container.restarts;
    }
  }
}

void SimulatedPlant::HurtContainer() {
  std::vector<Container*> alive;
  for (auto& [uid, container] : containers_) {
    if (container.alive && IsUp(container) && !container.ends_at) alive.push_back(&container);
  }
  if (alive.empty()) return;
  Container& container = *alive[rng_.Below(alive.size())];
  ++hurt_;
  const uint64_t how = rng_.Below(4);
  if (how == 0 && !container.controller) {
    log_("the agent of " + container.pod + " hangs");
    container.hung = true;
  } else if (how == 1) {
    log_("eviction by its kubelet: " + container.pod);
    container.alive = false;
    PatchStatus(container, {{"phase", "Failed"}, {"reason", "Evicted"}});
  } else {
    log_("the container of " + container.pod + " is killed");
    container.alive = container.hung = false;
    container.starts_at = now_ + Seconds(1, 10);
    ++container.restarts;
    WriteState(container);
  }
}

std::optional<std::pair<std::string, std::string>> SimulatedPlant::Ask(
    const std::string& pod_uid, const std::string& ip) const {
  const auto found = containers_.find(pod_uid);
  if (found == containers_.end() || !found->second.alive || found->second.ip != ip) {
    return std::nullopt;
  }
  const Container& controller = found->second;
  const Run& run = runs_.at(controller.job_uid);
  Json nodes = Json::array();
  for (const std::string& name : controller.connected) {
    nodes.push_back({{"name", name}, {"connected", true}});
  }
  nodes.push_back({{"name", "other"}, {"connected", false}});
  const char* const state =
      controller.trains ? "running" : (controller.has_trained ? "recovering" : "waiting");
  const Json job = {{"state", state},
                    {"restarts", run.restarts},
                    {"ledger", {{"goodput", run.done / (run.done + 100)}}},
                    {"faults", Json::array({{{"what", "a fault"}, {"action", "restart"}}})}};
  return std::pair{Json{{"jobs", Json::array({job})}}.dump(), Json{{"nodes", nodes}}.dump()};
}

SimulatedPlant::Truth SimulatedPlant::TruthOf(const std::string& job_uid) {
  Refresh();
  Truth truth;
  std::set<std::string> live;
  for (const Seen& pod : pods_) {
    if (pod.owner != job_uid) continue;
    ++truth.pods;
    if (pod.deleting || pod.ended) continue;
    ++truth.live;
    live.insert(pod.name);
    truth.templates.insert(pod.template_hash);
    if (!pod.controller) truth.indices.push_back(pod.index);
    if (!pod.controller && pod.node.empty()) ++truth.without_node;
    if (!pod.controller) continue;
    ++truth.controllers;
    const auto container = containers_.find(pod.uid);
    if (container == containers_.end()) continue;
    truth.trains = truth.trains || container->second.trains;
    truth.connected = container->second.connected;
  }
  std::erase_if(truth.connected, [&](const std::string& name) { return !live.contains(name); });
  return truth;
}

}  // namespace longhaul::engines::kubernetes
