#include "engines/kubernetes/scheduling/simulated_cluster.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/text.h"
#include "engines/kubernetes/protocol/objects/node.h"
#include "engines/kubernetes/protocol/objects/pod.h"
#include "engines/kubernetes/protocol/objects/pod_group.h"
#include "engines/kubernetes/protocol/objects/volume.h"
#include "engines/kubernetes/scheduling/pod_calls.h"

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kDevice = "nvidia.com/gpu";
constexpr Duration kTend = milliseconds(500);
// Pods of a node that is gone are collected after this time.
constexpr Duration kCollect = seconds(40);

enum class Kind : uint8_t { kNodes, kPods, kGroups, kClaims, kVolumes, kClasses };

Resource ResourceOf(Kind kind) {
  if (kind == Kind::kNodes) return Nodes();
  if (kind == Kind::kPods) return Pods();
  if (kind == Kind::kClaims) return VolumeClaims();
  if (kind == Kind::kVolumes) return Volumes();
  if (kind == Kind::kClasses) return StorageClasses();
  return {"scheduling.x-k8s.io", "v1alpha1", "podgroups", true};
}

int DevicesOf(const Json& pod) {
  const Json& container = pod["spec"]["containers"][0];
  const Json requests = container["resources"].value("requests", Json::object());
  return requests.contains(kDevice) ? std::stoi(requests[kDevice].get<std::string>()) : 0;
}

bool IsOver(const Json& pod) {
  const std::string phase = TextAt(pod, {"status", "phase"});
  return phase == "Succeeded" || phase == "Failed";
}

}  // namespace

// A watch of one resource, on the production's own state machine.
struct SimulatedCluster::View : WatchSink {
  View(SimulatedCluster& of, Kind of_kind, uint64_t seed)
      : cluster(of), kind(of_kind), state(Settings(of_kind), seed, *this) {}

  static WatchSettings Settings(Kind kind) {
    WatchSettings settings;
    settings.path = ListCall(ResourceOf(kind), "")->target;
    settings.streaming_list = kind != Kind::kGroups;
    return settings;
  }

  void OnChange(const Change& change) override {
    PodScheduler& scheduler = *cluster.scheduler_;
    const bool gone = change.kind == ChangeKind::kDeleted;
    switch (kind) {
      case Kind::kNodes:
        if (gone) return scheduler.OnNodeGone(change.meta.name);
        return scheduler.OnNode(*ReadNode(parser, change.object));
      case Kind::kPods:
        if (gone) {
          return scheduler.OnPodGone(
              {change.meta.namespace_name, change.meta.name, change.meta.uid});
        }
        return scheduler.OnPod(*ReadPodWithMeta(parser, change.object, change.meta));
      case Kind::kGroups:
        if (gone) return scheduler.OnPodGroupGone(PodGroupApi::kPlugins, change.meta.Key());
        return scheduler.OnPodGroup(PodGroupApi::kPlugins, *ReadPodGroup(parser, change.object));
      case Kind::kClaims:
      case Kind::kVolumes:
      case Kind::kClasses:
        return OnStorage(scheduler.volumes(), change);
    }
  }
  void OnStorage(PodVolumes& volumes, const Change& change) {
    const bool gone = change.kind == ChangeKind::kDeleted;
    if (kind == Kind::kClaims) {
      if (gone) return volumes.RemoveClaim(change.meta.Key());
      return volumes.SetClaim(*ReadVolumeClaim(parser, change.object));
    }
    if (kind == Kind::kVolumes) {
      if (gone) return volumes.RemoveVolume(change.meta.name);
      return volumes.SetVolume(*ReadVolume(parser, change.object));
    }
    if (gone) return volumes.RemoveClass(change.meta.name);
    volumes.SetClass(*ReadStorageClass(parser, change.object));
  }
  void OnSynced() override { synced = true; }
  void OnTrouble(const Status&) override {}

  SimulatedCluster& cluster;
  const Kind kind;
  JsonParser parser;
  WatchState state;
  std::optional<ApiWatch> stream;
  Instant last_delivery{};
  uint64_t stream_number = 0;
  bool synced = false;
};

SimulatedCluster::SimulatedCluster(uint64_t seed, const SimulatedFaults& faults)
    : rng_(seed),
      faults_(faults),
      provisioner_(api_, [this](const auto&... words) { return Do(words...); }) {
  ReplaceScheduler();
  After(kTend, [this] { Tend(); });
  DisturbLater();
}

SimulatedCluster::~SimulatedCluster() = default;

void SimulatedCluster::Log(const std::string& line) {
  log_ += ToString(now_).substr(11, 12) + " " + line + "\n";
}

void SimulatedCluster::At(Instant when, std::function<void()> what) {
  agenda_.emplace(std::max(when, now_), std::move(what));
}

Duration SimulatedCluster::Delay() {
  const uint64_t most = rng_.Below(20) == 0 ? 3'000 : 30;
  return milliseconds(1 + static_cast<int64_t>(rng_.Below(most)));
}

bool SimulatedCluster::Fault(bool kind, uint64_t one_in) {
  return kind && now_ < faults_end_ && rng_.Below(one_in) == 0;
}

ApiResponse SimulatedCluster::Do(const std::string& method, const std::string& path,
                                 const Json& body, const std::string& type) {
  api_.SetTime(now_);
  ApiRequest request = RequestFor(method, path, body.dump());
  request.content_type = type;
  ApiResponse response = api_.Handle(request);
  for (auto& view : views_) Pump(*view);
  return response;
}

void SimulatedCluster::AddNode(const std::string& name, const std::string& leaf, int devices) {
  const Json amounts = {
      {"cpu", "64"}, {"memory", "512Gi"}, {"pods", "110"}, {kDevice, std::to_string(devices)}};
  const Json node = {
      {"metadata", {{"name", name}, {"labels", {{"network.topology.nvidia.com/leaf", leaf}}}}},
      {"status",
       {{"capacity", amounts},
        {"allocatable", amounts},
        {"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}};
  nodes_[name] = node;
  CHECK(Do("POST", "/api/v1/nodes", node).status == 201);
  Do("PATCH", "/api/v1/nodes/" + name + "/status", {{"status", node["status"]}},
     "application/merge-patch+json");
}

void SimulatedCluster::AddForeignPod(const std::string& name, const std::string& node,
                                     int devices) {
  const Json pod = {
      {"metadata", {{"name", name}}},
      {"spec",
       {{"nodeName", node},
        {"containers",
         Json::array({{{"name", "main"},
                       {"image", "x"},
                       {"resources", {{"limits", {{kDevice, std::to_string(devices)}}}}}}})}}}};
  CHECK(Do("POST", "/api/v1/namespaces/ns/pods", pod).status == 201);
}

void SimulatedCluster::AddGang(const SimulatedGang& gang) {
  owners_[gang.name].gang = gang;
  if (gang.gang) {
    const ApiResponse made =
        Do("POST", "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/ns/podgroups",
           {{"metadata", {{"name", gang.name}}}, {"spec", {{"minMember", gang.size}}}});
    CHECK(made.status == 201) << made.body;
  }
  for (int i = 0; i < gang.size; ++i) MakePod(gang, i);
}

void SimulatedCluster::MakePod(const SimulatedGang& gang, int index) {
  Json meta = {{"name", PodName(gang, index)}};
  if (gang.gang) meta["labels"] = {{kPodGroupLabel, gang.name}};
  const Json limits = {{"cpu", "1"}, {kDevice, std::to_string(gang.devices)}};
  Json pod = {
      {"metadata", meta},
      {"spec",
       {{"schedulerName", "longhaul"},
        {"priority", gang.priority},
        {"terminationGracePeriodSeconds", 5},
        {"containers",
         Json::array({{{"name", "main"}, {"image", "x"}, {"resources", {{"limits", limits}}}}})}}}};
  if (gang.late_volumes) {
    const std::string claim = provisioner_.MakeClaim(PodName(gang, index));
    pod["spec"]["volumes"] =
        Json::array({{{"name", "data"}, {"persistentVolumeClaim", {{"claimName", claim}}}}});
  }
  if (Do("POST", "/api/v1/namespaces/ns/pods", pod).status == 201) {
    ++made_[PodName(gang, index)];
    Log("made " + PodName(gang, index));
  }
}

void SimulatedCluster::ReplaceScheduler() {
  ++leader_;
  views_.clear();
  scheduler_ = std::make_unique<PodScheduler>(settings_);
  advance_at_.reset();
  Log("leader " + std::to_string(leader_));
  for (const Kind kind :
       {Kind::kNodes, Kind::kPods, Kind::kGroups, Kind::kClaims, Kind::kVolumes, Kind::kClasses}) {
    views_.push_back(std::make_unique<View>(*this, kind, rng_.Next()));
    After(Delay(), [this, view = views_.back().get(), leader = leader_] {
      if (leader == leader_) Pump(*view);
    });
  }
}

// Sends the view's next request, and delivers what has happened since, late but in order.
void SimulatedCluster::Pump(View& view) {
  const auto later = [&](Duration delay, std::function<void(View&)> what) {
    view.last_delivery = std::max(view.last_delivery, now_ + delay);
    At(view.last_delivery,
       [this, &view, leader = leader_, number = view.stream_number, what = std::move(what)] {
         if (leader != leader_ || number != view.stream_number) return;
         what(view);
         Pump(view);
         Advance();
       });
  };
  if (view.stream) {
    if (Fault(faults_.watches, 200)) {
      view.stream.reset();
      ++view.stream_number;
      view.state.OnEnd(Unavailable("cut"), now_);
    } else if (api_.Expired(*view.stream)) {
      view.stream.reset();
      ++view.stream_number;
      view.state.OnLine(PaddedString(ApiDouble::ExpiredLine()).view(), now_);
    } else {
      std::string lines = api_.NextLines(*view.stream);
      if (lines.empty()) return;
      later(Delay(), [this, lines = std::move(lines)](View& of) {
        for (const std::string_view line : Split(lines, '\n')) {
          if (line.empty() || !of.stream) continue;
          if (!of.state.OnLine(PaddedString(line).view(), now_)) {
            of.stream.reset();
            ++of.stream_number;
          }
        }
      });
      return;
    }
  }
  const WatchState::Action action = view.state.Next(now_);
  if (action.kind == WatchState::Kind::kBusy) return;
  if (action.kind == WatchState::Kind::kWait) {
    At(action.at, [this, &view, leader = leader_] {
      if (leader == leader_) Pump(view);
    });
    return;
  }
  ApiResponse response = api_.Handle(RequestFor("GET", action.target, ""));
  const bool list = action.kind == WatchState::Kind::kList;
  if (!list && response.watch) {
    view.stream = std::move(response.watch);
    ++view.stream_number;
  }
  later(Delay(), [this, list, body = std::move(response.body)](View& of) {
    if (list) return of.state.OnPage(PaddedString(body).view(), now_);
    for (const std::string_view line : Split(body, '\n')) {
      if (line.empty()) continue;
      if (of.state.OnLine(PaddedString(line).view(), now_)) continue;
      of.stream.reset();
      ++of.stream_number;
      return;
    }
    if (!of.stream) of.state.OnEnd(Status(), now_);
  });
}

void SimulatedCluster::Advance() {
  for (const auto& view : views_) {
    if (!view->synced) return;
  }
  for (const PodAction& action : scheduler_->Advance(now_, 100)) Carry(action);
  const Status holds = scheduler_->CheckInvariants();
  if (!holds.ok() && broken_.ok()) broken_ = holds;
  const std::optional<Instant> next = scheduler_->NextDeadline();
  turns_ = next && *next <= now_ ? turns_ + 1 : 0;
  if (turns_ > 100 && broken_.ok()) {
    broken_ =
        InternalError("the scheduler is due at once again and again: " + scheduler_->trouble());
  }
  if (!next || (advance_at_ && *advance_at_ <= *next)) return;
  advance_at_ = *next;
  At(*next, [this, leader = leader_, at = *next] {
    if (leader != leader_ || advance_at_ != at) return;
    advance_at_.reset();
    Advance();
  });
}

void SimulatedCluster::Carry(const PodAction& action) {
  if (Fault(faults_.lost_messages, 30)) {
    After(Delay(), [this, action, leader = leader_] {
      if (leader == leader_) Reply(action, {}, false);
    });
    return;
  }
  After(Delay(), [this, action, leader = leader_] { Execute(action, leader); });
}

// The request arrives, whoever leads by then.
void SimulatedCluster::Execute(const PodAction& action, uint64_t leader) {
  const Result<Call> call = CallFor(action, ToString(now_).substr(0, 19) + "Z");
  CHECK(call.ok()) << call.status();
  ApiResponse response;
  if (Fault(faults_.refusals, 20)) {
    const int codes[] = {409, 429, 500, 403};
    const int code = codes[rng_.Below(4)];
    response = {code, StatusJson({code, "Injected", "injected fault", Json()}).dump(), {}};
  } else {
    api_.SetTime(now_);
    ApiRequest request = RequestFor(call->method, call->target, call->body);
    request.content_type = call->content_type;
    response = api_.Handle(request);
    const auto* bind = std::get_if<BindPod>(&action);
    if (bind != nullptr && response.status < 300 && broken_.ok() &&
        !provisioner_.HasVolumes(*Pod(bind->pod.name))) {
      broken_ = InternalError(bind->pod.name + " is bound, and its claim is not");
    }
    const auto* remove = std::get_if<RemovePod>(&action);
    if (remove != nullptr && response.status < 300) ++removed_;
    if (!std::holds_alternative<ReportWait>(action) &&
        !std::holds_alternative<RecordPodEvent>(action)) {
      Log(call->Text() +
          (std::holds_alternative<BindPod>(action) ? " to " + std::get<BindPod>(action).node
                                                   : std::string()) +
          ": " + std::to_string(response.status));
    }
    for (auto& view : views_) Pump(*view);
  }
  const bool answered = !Fault(faults_.lost_messages, 30);
  After(Delay(), [this, action, leader, response, answered] {
    if (leader == leader_) Reply(action, response, answered);
  });
}

void SimulatedCluster::Reply(const PodAction& action, const ApiResponse& response, bool answered) {
  const Result<Call> call = CallFor(action, "");
  JsonParser parser;
  const PaddedString body(response.body);
  const Result<ApiStatus> details = ReadApiStatus(parser, body.view());
  const Verdict verdict =
      answered ? Judge(*call, response.status, "", details.ok() ? *details : ApiStatus())
               : Unreachable(*call, Unavailable("lost"));
  if (const auto* bind = std::get_if<BindPod>(&action)) {
    scheduler_->OnBind(bind->pod, BindResultOf(verdict), verdict.status.message(), now_);
  } else if (const auto* remove = std::get_if<RemovePod>(&action)) {
    scheduler_->OnRemove(remove->pod, IsRemoved(verdict), now_);
  } else if (const auto* select = std::get_if<SelectNode>(&action)) {
    scheduler_->OnSelectNode(*select, verdict.status, now_);
  } else if (const auto* read = std::get_if<ReadPodAgain>(&action)) {
    if (verdict.outcome == Outcome::kDone) {
      const Result<longhaul::engines::kubernetes::Pod> pod = ReadPod(parser, body.view());
      CHECK(pod.ok()) << pod.status();
      if (pod->meta.uid == read->pod.uid) {
        scheduler_->OnRead(*pod);
      } else {
        scheduler_->OnPodGone(read->pod);
      }
    } else if (verdict.outcome == Outcome::kNotFound) {
      scheduler_->OnPodGone(read->pod);
    }
  } else if (const auto* event = std::get_if<RecordPodEvent>(&action)) {
    if (verdict.outcome != Outcome::kDone) scheduler_->OnEventLost(*event);
    return;
  }
  Advance();
}

void SimulatedCluster::DisturbLater() {
  After(milliseconds(200 + static_cast<int64_t>(rng_.Below(5'000))), [this] { Disturb(); });
}

void SimulatedCluster::Disturb() {
  DisturbLater();
  if (Fault(faults_.leaders, 8)) ReplaceScheduler();
  if (Fault(faults_.watches, 4)) api_.Compact();
  if (Fault(faults_.deletions, 3) && !owners_.empty()) {
    auto owner = owners_.begin();
    std::advance(owner, static_cast<std::ptrdiff_t>(rng_.Below(owners_.size())));
    const int index = static_cast<int>(rng_.Below(static_cast<uint64_t>(owner->second.gang.size)));
    const std::string name = PodName(owner->second.gang, index);
    Log("user deletes " + name);
    Do("DELETE", "/api/v1/namespaces/ns/pods/" + name, Json::object());
  }
  if (!faults_.nodes || nodes_.empty()) return;
  auto node = nodes_.begin();
  std::advance(node, static_cast<std::ptrdiff_t>(rng_.Below(nodes_.size())));
  const bool there = api_.Find("nodes", ObjectName{"", node->first}) != nullptr;
  if (there && Fault(true, 4)) {
    Log("node " + node->first + " is gone");
    api_.SetTime(now_);
    api_.Remove("nodes", ObjectName{"", node->first});
    for (auto& view : views_) Pump(*view);
  } else if (!there && (now_ >= faults_end_ || rng_.Below(3) == 0)) {
    Log("node " + node->first + " is back");
    Do("POST", "/api/v1/nodes", node->second);
    Do("PATCH", "/api/v1/nodes/" + node->first + "/status", {{"status", node->second["status"]}},
       "application/merge-patch+json");
  }
}

void SimulatedCluster::SetPhase(const Json& pod, const std::string& phase) {
  Do("PATCH", "/api/v1/namespaces/ns/pods/" + TextAt(pod, {"metadata", "name"}) + "/status",
     {{"status", {{"phase", phase}}}}, "application/merge-patch+json");
}

// What owners, kubelets and the collector do.
void SimulatedCluster::Tend() {
  After(kTend, [this] { Tend(); });
  TendNodes();
  const std::string done =
      provisioner_.Tend(rng_, [this] { return Fault(faults_.provisioning, 3); });
  for (const std::string_view line : Split(done, '\n')) {
    if (!line.empty()) Log(std::string(line));
  }
  for (auto& [name, owner] : owners_) TendOwner(owner);
  const Status holds = Check();
  if (!holds.ok() && broken_.ok()) broken_ = holds;
}

void SimulatedCluster::TendNodes() {
  std::map<std::string, int> held;
  for (const auto& [name, owner] : owners_) {
    for (int i = 0; i < owner.gang.size; ++i) {
      const Json* found = Pod(PodName(owner.gang, i));
      if (found == nullptr) continue;
      const Json& pod = *found;
      const std::string node = TextAt(pod, {"spec", "nodeName"});
      const std::string key = PodName(owner.gang, i);
      if (node.empty()) {
        bound_at_.erase(key);
        continue;
      }
      const Instant since = bound_at_.try_emplace(key, now_).first->second;
      const bool there = api_.Find("nodes", ObjectName{"", node}) != nullptr;
      const bool ends = pod["metadata"].contains("deletionTimestamp");
      if (there ? ends && now_ > since + seconds(2) : now_ > since + kCollect) {
        bound_at_.erase(key);
        Log("removed " + key);
        api_.SetTime(now_);
        api_.Remove("pods", ObjectName{"ns", key});
        for (auto& view : views_) Pump(*view);
        continue;
      }
      if (!there || IsOver(pod)) continue;
      const int has =
          std::stoi(nodes_.at(node)["status"]["allocatable"][kDevice].get<std::string>());
      held[node] += DevicesOf(pod);
      if (TextAt(pod, {"status", "phase"}) == "Running") continue;
      if (held[node] > has) {
        held[node] -= DevicesOf(pod);
        ++rejected_;
        Log("kubelet rejects " + key);
        SetPhase(pod, "Failed");
      } else if (!ends && now_ > since + seconds(1)) {
        SetPhase(pod, "Running");
      }
    }
  }
}

void SimulatedCluster::TendOwner(Owner& owner) {
  if (owner.finished) return;
  const SimulatedGang& gang = owner.gang;
  int running = 0, over = 0;
  for (int i = 0; i < gang.size; ++i) {
    const Json* pod = Pod(PodName(gang, i));
    if (pod == nullptr) {
      MakePod(gang, i);
      continue;
    }
    const std::string phase = TextAt(*pod, {"status", "phase"});
    const bool ends = pod->at("metadata").contains("deletionTimestamp");
    if (phase == "Failed" && !ends) {
      Do("DELETE", "/api/v1/namespaces/ns/pods/" + PodName(gang, i), Json::object());
    }
    over += phase == "Succeeded" ? 1 : 0;
    running += phase == "Running" && !ends ? 1 : 0;
    // Single pods end by themselves.
    const auto bound = bound_at_.find(PodName(gang, i));
    if (!gang.gang && phase == "Running" && !ends && bound != bound_at_.end() &&
        now_ > bound->second + gang.runs) {
      SetPhase(Json(*pod), "Succeeded");
    }
  }
  owner.finished = over == gang.size;
  if (!gang.gang) return;
  if (running + over < gang.size) {
    owner.whole_since.reset();
  } else if (!owner.whole_since) {
    owner.whole_since = now_;
  } else if (now_ > *owner.whole_since + gang.runs) {
    for (int i = 0; i < gang.size; ++i) SetPhase(Json(*Pod(PodName(gang, i))), "Succeeded");
    owner.finished = true;
  }
}

// No gang stays partly bound for longer than the scheduler may wait for the rest of it.
Status SimulatedCluster::Check() {
  const Duration most =
      settings_.lost_patience + settings_.incomplete_patience + std::chrono::minutes(3);
  for (auto& [name, owner] : owners_) {
    int bound = 0;
    for (int i = 0; i < owner.gang.size; ++i) {
      const Json* pod = Pod(PodName(owner.gang, i));
      bound += pod != nullptr && !TextAt(*pod, {"spec", "nodeName"}).empty() ? 1 : 0;
    }
    if (!owner.gang.gang || owner.finished || bound == 0 || bound == owner.gang.size ||
        now_ < faults_end_) {
      owner.partial_since.reset();
    } else if (!owner.partial_since) {
      owner.partial_since = now_;
    } else if (now_ > *owner.partial_since + most) {
      return InternalError(name + " has been partly bound since " + ToString(*owner.partial_since));
    }
  }
  return {};
}

Status SimulatedCluster::Run(Duration time, const std::function<bool()>& done) {
  const Instant end = now_ + time;
  while (broken_.ok() && !done() && !agenda_.empty() && agenda_.begin()->first <= end) {
    auto next = agenda_.extract(agenda_.begin());
    now_ = next.key();
    next.mapped()();
  }
  if (broken_.ok() && !done()) now_ = end;
  return broken_;
}

bool SimulatedCluster::AllFinished() const {
  return std::all_of(owners_.begin(), owners_.end(),
                     [](const auto& owner) { return owner.second.finished; });
}

int SimulatedCluster::Bound(const std::string& gang) const {
  const SimulatedGang& of = owners_.at(gang).gang;
  int bound = 0;
  for (int i = 0; i < of.size; ++i) bound += NodeOf(PodName(of, i)).empty() ? 0 : 1;
  return bound;
}

std::string SimulatedCluster::NodeOf(const std::string& pod) const {
  const Json* found = Pod(pod);
  return found == nullptr ? "" : TextAt(*found, {"spec", "nodeName"});
}

std::vector<Json> SimulatedCluster::EventsOf(const std::string& reason) const {
  std::vector<Json> events;
  for (const ObjectName& name : api_.Names("events")) {
    const Json* event = api_.Find("events", name);
    if (event->value("reason", "") == reason) events.push_back(*event);
  }
  return events;
}

std::string SimulatedCluster::PhaseOf(const std::string& pod) const {
  const Json* found = Pod(pod);
  return found == nullptr ? "" : TextAt(*found, {"status", "phase"});
}

std::string SimulatedCluster::MessageOf(const std::string& pod) const {
  const Json* found = Pod(pod);
  if (found == nullptr) return "";
  for (const Json& condition : found->at("status").value("conditions", Json::array())) {
    if (condition.value("type", "") == "PodScheduled") return condition.value("message", "");
  }
  return "";
}

}  // namespace longhaul::engines::kubernetes
