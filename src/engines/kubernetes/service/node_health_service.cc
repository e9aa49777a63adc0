#include "engines/kubernetes/service/node_health_service.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "engines/kubernetes/service/object_text.h"
#include "io/clock.h"

namespace longhaul::engines::kubernetes {
namespace {}  // namespace

// A watch of nodes or of pods.
class NodeHealthService::View : public WatchSink {
 public:
  View(NodeHealthService& service, std::string what, std::function<Status(const Change&)> take)
      : service_(service), what_(std::move(what)), take_(std::move(take)) {}

  void OnChange(const Change& change) override {
    const Status status = take_(change);
    if (!status.ok()) OnTrouble(status.WithContext(change.meta.Key()));
  }
  void OnSynced() override {
    synced = true;
    service_.OnViewSynced();
  }
  void OnTrouble(const Status& status) override { service_.OnTrouble(what_, status); }

  std::unique_ptr<WatchConnection> connection;
  bool synced = false;

 private:
  NodeHealthService& service_;
  const std::string what_;
  const std::function<Status(const Change&)> take_;
};

NodeHealthService::NodeHealthService(io::EventLoop& loop, Client& client,
                                     NodeHealthSettings settings, bool device_taints,
                                     std::function<bool()> leads, Log log)
    : loop_(loop),
      client_(client),
      health_(std::move(settings)),
      leads_(std::move(leads)),
      log_(std::move(log)) {
  const auto watch = [this](const Resource& resource, const std::string& selector, auto take) {
    auto view = std::make_unique<View>(*this, resource.plural, std::move(take));
    Client::WatchOptions options;
    options.resource = resource;
    options.settings.selector = selector;
    auto connection = client_.Watch(std::move(options), *view);
    CHECK(connection.ok()) << connection.status();
    view->connection = *std::move(connection);
    views_.push_back(std::move(view));
  };
  watch(Nodes(), "", [this](const Change& change) { return TakeNode(change); });
  // Pods that are bound and have not ended.
  watch(Pods(),
        "fieldSelector=spec.nodeName%21%3D%2Cstatus.phase%21%3DSucceeded%2C"
        "status.phase%21%3DFailed",
        [this](const Change& change) { return TakePod(change); });
  if (device_taints) WatchDevices();
}

NodeHealthService::~NodeHealthService() {
  for (const auto& timer : {turn_, timer_}) {
    if (timer) loop_.Cancel(*timer);
  }
}

Status NodeHealthService::TakeNode(const Change& change) {
  if (change.kind == ChangeKind::kDeleted) {
    health_.OnNodeGone(change.meta.name);
  } else {
    ASSIGN_OR_RETURN(const JobJson object, ParseObject(change.object));
    RETURN_IF_ERROR(health_.OnNode(object));
  }
  Changed();
  return {};
}

Status NodeHealthService::TakePod(const Change& change) {
  const std::string key = change.meta.Key();
  // A cluster has many pods, which change often, and parsing is most of the work. The API server
  // writes this word as it is.
  const bool may_have_evidence = change.kind != ChangeKind::kDeleted &&
                                 change.object.text.find("Unhealthy") != std::string::npos;
  if (!may_have_evidence) {
    if (pods_.erase(key) == 0) return {};
    health_.OnPodGone(key);
  } else {
    ASSIGN_OR_RETURN(const JobJson object, ParseObject(change.object));
    health_.OnPod(key, object);
    pods_.insert(key);
  }
  Changed();
  return {};
}

void NodeHealthService::WatchDevices() {
  const auto watch = [this](const std::string& plural, auto take, auto gone) {
    const auto trouble = [this, plural](const Status& status) { OnTrouble(plural, status); };
    const auto changed = [this, trouble, take, gone](const Change& change) {
      const std::string name = change.meta.name;
      if (change.kind == ChangeKind::kDeleted) {
        (health_.*gone)(name);
      } else {
        const Result<JobJson> object = ParseObject(change.object);
        if (!object.ok()) return trouble(object.status().WithContext(name));
        (health_.*take)(name, *object);
      }
      Changed();
    };
    devices_.push_back(std::make_unique<OptionalWatch>(
        loop_, client_, Resource{"resource.k8s.io", "v1", plural, false}, "",
        OptionalWatch::Events{changed, [this] { OnViewSynced(); }, trouble}));
  };
  watch("resourceslices", &NodeHealth::OnSlice, &NodeHealth::OnSliceGone);
  watch("devicetaintrules", &NodeHealth::OnTaintRule, &NodeHealth::OnTaintRuleGone);
}

void NodeHealthService::Drain() {
  draining_ = true;
  for (const auto& watch : devices_) watch->Stop();
}

bool NodeHealthService::idle() const {
  return under_way_ == 0 && unsent_.empty() &&
         std::all_of(devices_.begin(), devices_.end(),
                     [](const auto& watch) { return watch->idle(); });
}

void NodeHealthService::OnViewSynced() {
  const bool all =
      std::all_of(views_.begin(), views_.end(), [](const auto& view) { return view->synced; }) &&
      std::all_of(devices_.begin(), devices_.end(),
                  [](const auto& watch) { return watch->is_known(); });
  if (!all) return;
  if (!synced_) log_("checking the health of " + std::to_string(health_.nodes()) + " nodes");
  synced_ = true;
  Changed();
}

void NodeHealthService::OnTrouble(const std::string& what, const Status& status) {
  Complain("the watch of " + what + ": " + status.message());
}

void NodeHealthService::Complain(const std::string& line) {
  if (complaints_.size() >= kMostComplaints) complaints_.clear();
  if (complaints_.insert(line).second) log_(line);
}

void NodeHealthService::Changed() {
  if (turn_ || !synced_) return;
  turn_ = loop_.After(Duration(0), [this] {
    turn_.reset();
    Advance();
  });
}

void NodeHealthService::Advance() {
  if (!leads_()) return;
  SendActions();
  if (draining_ || !unsent_.empty()) return;
  for (NodeAction& action : health_.Advance(io::MonotonicNow(), io::Now())) {
    if (const auto* event = std::get_if<RecordNodeEvent>(&action)) {
      log_("node " + event->node + ": " + event->event["note"].get<std::string>());
    }
    unsent_.push_back(std::move(action));
  }
  SendActions();
  SetTimer();
}

void NodeHealthService::SetTimer() {
  if (timer_) loop_.Cancel(*timer_);
  timer_.reset();
  const std::optional<Instant> next = health_.NextDeadline();
  if (!next) return;
  timer_ = loop_.After(std::max(Duration(0), *next - io::MonotonicNow()), [this] {
    timer_.reset();
    Changed();
  });
}

void NodeHealthService::SendActions() {
  while (!unsent_.empty() && Send(unsent_.front())) unsent_.pop_front();
}

// Returns false when the queue of its class is full.
bool NodeHealthService::Send(const NodeAction& action) {
  Result<Call> call = CallFor(action);
  if (!call.ok()) {
    Complain(call.status().message());
    health_.OnReply(action, PatchResult::kRefused, io::MonotonicNow());
    return true;
  }
  if (client_.room(call->traffic) == 0) return std::holds_alternative<RecordNodeEvent>(action);
  const auto sent = client_.Send(*std::move(call), [this, action](const Reply& reply) {
    --under_way_;
    OnReply(action, reply);
  });
  under_way_ += sent.ok() ? 1 : 0;
  return sent.ok();
}

void NodeHealthService::OnReply(const NodeAction& action, const Reply& reply) {
  const Outcome outcome = reply.verdict.outcome;
  const bool expected = reply.ok() || outcome == Outcome::kNotFound ||
                        outcome == Outcome::kConflict || outcome == Outcome::kAlreadyExists;
  if (!expected) Complain(reply.verdict.status.message());
  health_.OnReply(action, PatchResultOf(reply.verdict), io::MonotonicNow());
  Changed();
}

}  // namespace longhaul::engines::kubernetes
