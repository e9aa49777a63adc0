#include "engines/kubernetes/service/pod_scheduler_service.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "engines/kubernetes/protocol/objects/node.h"
#include "engines/kubernetes/protocol/objects/pod.h"
#include "engines/kubernetes/protocol/objects/pod_group.h"
#include "engines/kubernetes/protocol/objects/volume.h"
#include "engines/kubernetes/scheduling/pod_calls.h"
#include "io/clock.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMostReportsAtOnce = 500;

std::string ApiTime() { return ToString(io::Now()).substr(0, 19) + "Z"; }

}  // namespace

class PodSchedulerService::NodeView : public WatchSink {
 public:
  explicit NodeView(PodSchedulerService& service) : service_(service) {}

  void OnChange(const Change& change) override {
    if (change.kind == ChangeKind::kDeleted) {
      service_.scheduler_.OnNodeGone(change.meta.name);
    } else {
      Result<Node> node = ReadNode(parser_, change.object);
      if (!node.ok()) return OnTrouble(node.status());
      service_.scheduler_.OnNode(*std::move(node));
    }
    service_.Changed();
  }
  void OnSynced() override {
    synced = true;
    service_.OnViewSynced();
  }
  void OnTrouble(const Status& status) override { service_.OnTrouble("nodes", status); }

  std::unique_ptr<WatchConnection> connection;
  bool synced = false;

 private:
  PodSchedulerService& service_;
  JsonParser parser_;
};

class PodSchedulerService::PodView : public WatchSink {
 public:
  explicit PodView(PodSchedulerService& service) : service_(service) {}

  void OnChange(const Change& change) override {
    const ObjectMeta& meta = change.meta;
    if (change.kind == ChangeKind::kDeleted) {
      service_.scheduler_.OnPodGone({meta.namespace_name, meta.name, meta.uid});
    } else {
      const Result<Pod> pod = ReadPodWithMeta(parser_, change.object, change.meta);
      if (!pod.ok()) return OnTrouble(pod.status());
      service_.scheduler_.OnPod(*pod);
    }
    service_.Changed();
  }
  void OnSynced() override {
    synced = true;
    service_.OnViewSynced();
  }
  void OnTrouble(const Status& status) override { service_.OnTrouble("pods", status); }

  std::unique_ptr<WatchConnection> connection;
  bool synced = false;

 private:
  PodSchedulerService& service_;
  JsonParser parser_;
};

PodSchedulerService::PodSchedulerService(io::EventLoop& loop, Client& client,
                                         PodSchedulerSettings settings, std::function<bool()> leads,
                                         Log log)
    : loop_(loop),
      client_(client),
      scheduler_(std::move(settings)),
      leads_(std::move(leads)),
      log_(std::move(log)),
      events_(
          loop, client, [this](const RecordPodEvent& event) { scheduler_.OnEventLost(event); },
          log_),
      nodes_(std::make_unique<NodeView>(*this)),
      pods_(std::make_unique<PodView>(*this)) {
  const auto watch = [&](const Resource& resource, const std::string& selector, auto& view) {
    Client::WatchOptions options;
    options.resource = resource;
    options.settings.selector = selector;
    auto connection = client_.Watch(std::move(options), view);
    CHECK(connection.ok()) << connection.status();
    view.connection = *std::move(connection);
  };
  watch(Nodes(), "", *nodes_);
  // Finished pods use nothing.
  watch(Pods(), "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed", *pods_);
  WatchStorage();
  WatchGroups(PodGroupApi::kPlugins, {"scheduling.x-k8s.io", "v1alpha1", "podgroups", true});
  WatchGroups(PodGroupApi::kKubernetes, {"scheduling.k8s.io", "v1beta1", "podgroups", true});
}

PodSchedulerService::~PodSchedulerService() {
  for (const auto& timer : {turn_, timer_}) {
    if (timer) loop_.Cancel(*timer);
  }
}

void PodSchedulerService::WatchGroups(PodGroupApi api, const Resource& resource) {
  const auto changed = [this, api](const Change& change) {
    if (change.kind == ChangeKind::kDeleted) {
      scheduler_.OnPodGroupGone(api, change.meta.Key());
    } else {
      const Result<PodGroup> group = ReadPodGroup(parser_, change.object);
      if (!group.ok()) return OnTrouble("PodGroups", group.status());
      scheduler_.OnPodGroup(api, *group);
    }
    Changed();
  };
  WatchOptional(resource, "PodGroups", changed);
}

// An account of an earlier release may not read these: pods without claims do not need them.
void PodSchedulerService::WatchStorage() {
  PodVolumes& volumes = scheduler_.volumes();
  const auto watch = [this](const Resource& resource, const std::string& what, auto read, auto set,
                            auto remove) {
    OptionalWatch& view = WatchOptional(resource, what, [=, this](const Change& change) {
      if (change.kind == ChangeKind::kDeleted) {
        remove(change.meta);
      } else {
        auto object = read(parser_, change.object);
        if (!object.ok()) return OnTrouble(what, object.status());
        set(*std::move(object));
      }
      Changed();
    });
    storage_.push_back(&view);
  };
  watch(
      VolumeClaims(), "PersistentVolumeClaims", ReadVolumeClaim,
      [&volumes](VolumeClaim claim) { volumes.SetClaim(std::move(claim)); },
      [&volumes](const ObjectMeta& meta) { volumes.RemoveClaim(meta.Key()); });
  watch(
      Volumes(), "PersistentVolumes", ReadVolume,
      [&volumes](Volume volume) { volumes.SetVolume(std::move(volume)); },
      [&volumes](const ObjectMeta& meta) { volumes.RemoveVolume(meta.name); });
  watch(
      StorageClasses(), "StorageClasses", ReadStorageClass,
      [&volumes](StorageClass storage) { volumes.SetClass(std::move(storage)); },
      [&volumes](const ObjectMeta& meta) { volumes.RemoveClass(meta.name); });
}

OptionalWatch& PodSchedulerService::WatchOptional(const Resource& resource, const std::string& what,
                                                  std::function<void(const Change&)> changed) {
  const auto trouble = [this, what](const Status& status) { OnTrouble(what, status); };
  optional_.push_back(std::make_unique<OptionalWatch>(
      loop_, client_, resource, "",
      OptionalWatch::Events{std::move(changed), [this] { OnViewSynced(); }, trouble}));
  return *optional_.back();
}

void PodSchedulerService::OnViewSynced() {
  scheduler_.volumes().SetReadable(std::all_of(storage_.begin(), storage_.end(),
                                               [](const auto* watch) { return watch->served(); }));
  if (synced_) return Changed();
  const bool all_known = std::all_of(optional_.begin(), optional_.end(),
                                     [](const auto& watch) { return watch->is_known(); });
  if (!nodes_->synced || !pods_->synced || !all_known) return;
  synced_ = true;
  log_("scheduling pods on " + std::to_string(nodes_->connection->state().objects()) + " nodes; " +
       std::to_string(pods_->connection->state().objects()) + " pods exist");
  Changed();
}

void PodSchedulerService::OnTrouble(const std::string& what, const Status& status) {
  Complain("the watch of " + what + ": " + status.message());
}

void PodSchedulerService::Complain(const std::string& line) {
  if (line == complaint_) return;
  complaint_ = line;
  log_(line);
}

void PodSchedulerService::Changed() {
  changed_ = true;
  if (turn_ || !synced_) return;
  turn_ = loop_.After(Duration(0), [this] {
    turn_.reset();
    Advance();
  });
}

void PodSchedulerService::Advance() {
  if (!leads_()) return;
  // What is decided already goes first; the replies to it continue here.
  SendActions();
  if (draining_ || !unsent_.empty()) return;
  changed_ = false;
  const size_t reports = std::min(kMostReportsAtOnce, client_.room(TrafficClass::kStatus) / 2);
  for (PodAction& action : scheduler_.Advance(io::MonotonicNow(), reports)) {
    unsent_.push_back(std::move(action));
  }
  if (!scheduler_.trouble().empty()) Complain(scheduler_.trouble());
  SendActions();
  SetTimer();
}

void PodSchedulerService::SetTimer() {
  if (timer_) loop_.Cancel(*timer_);
  timer_.reset();
  const std::optional<Instant> next = scheduler_.NextDeadline();
  if (!next) return;
  timer_ = loop_.After(std::max(Duration(0), *next - io::MonotonicNow()), [this] {
    timer_.reset();
    Changed();
  });
}

void PodSchedulerService::SendActions() {
  while (!unsent_.empty() && Send(unsent_.front())) unsent_.pop_front();
}

// Returns false when the queue of its class is full.
bool PodSchedulerService::Send(const PodAction& action) {
  if (const auto* event = std::get_if<RecordPodEvent>(&action)) {
    events_.Write(*event);
    return true;
  }
  Result<Call> call = CallFor(action, ApiTime());
  if (!call.ok()) {
    // A name of an object that no object can have: the server would not have it either.
    Complain(call.status().message());
    return true;
  }
  if (client_.room(call->traffic) == 0) return std::holds_alternative<ReportWait>(action);
  const auto sent = client_.Send(*std::move(call), [this, action](const Reply& reply) {
    --under_way_;
    OnReply(action, reply);
  });
  under_way_ += sent.ok() ? 1 : 0;
  return sent.ok();
}

void PodSchedulerService::OnReply(const PodAction& action, const Reply& reply) {
  const Instant now = io::MonotonicNow();
  const Outcome outcome = reply.verdict.outcome;
  const bool expected = reply.ok() || outcome == Outcome::kNotFound ||
                        outcome == Outcome::kConflict || outcome == Outcome::kDisruptionBudget;
  if (!expected) Complain(reply.verdict.status.message());
  if (const auto* bind = std::get_if<BindPod>(&action)) {
    scheduler_.OnBind(bind->pod, BindResultOf(reply.verdict), reply.verdict.status.message(), now);
  } else if (const auto* remove = std::get_if<RemovePod>(&action)) {
    scheduler_.OnRemove(remove->pod, IsRemoved(reply.verdict), now);
  } else if (const auto* select = std::get_if<SelectNode>(&action)) {
    scheduler_.OnSelectNode(*select, reply.verdict.status, now);
  } else if (const auto* read = std::get_if<ReadPodAgain>(&action)) {
    OnRead(*read, reply);
  } else {
    return;
  }
  Changed();
}

void PodSchedulerService::OnRead(const ReadPodAgain& read, const Reply& reply) {
  if (reply.verdict.outcome == Outcome::kNotFound) return scheduler_.OnPodGone(read.pod);
  if (!reply.ok()) return;  // it is read again
  const PaddedString body(reply.body);
  const Result<Pod> pod = ReadPod(parser_, body.view());
  if (!pod.ok()) return Complain(pod.status().message());
  if (pod->meta.uid == read.pod.uid) {
    scheduler_.OnRead(*pod);
  } else {
    scheduler_.OnPodGone(read.pod);
  }
}

bool PodSchedulerService::idle() const {
  return under_way_ == 0 && unsent_.empty() &&
         std::all_of(optional_.begin(), optional_.end(),
                     [](const auto& watch) { return watch->idle(); });
}

void PodSchedulerService::Drain() {
  draining_ = true;
  for (const auto& watch : optional_) watch->Stop();
  std::erase_if(unsent_, [](const PodAction& action) {
    return std::holds_alternative<ReportWait>(action) ||
           std::holds_alternative<RecordPodEvent>(action);
  });
}

}  // namespace longhaul::engines::kubernetes
