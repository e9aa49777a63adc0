#include "engines/kubernetes/service/job_operator_service.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "engines/kubernetes/jobs/job_calls.h"
#include "engines/kubernetes/service/object_text.h"
#include "io/clock.h"

namespace longhaul::engines::kubernetes {
namespace {

// Keys change seldom; a new one signs tokens some time after it is published.
constexpr Duration kKeysPeriod = std::chrono::minutes(5);
constexpr Duration kKeysRetry = std::chrono::seconds(2);
constexpr Duration kAskPeriod = std::chrono::milliseconds(500);
constexpr size_t kMostKeys = 64 << 10;
}  // namespace

class JobOperatorService::JobView : public WatchSink {
 public:
  explicit JobView(JobOperatorService& service) : service_(service) {}

  void OnChange(const Change& change) override {
    const std::string key = change.meta.Key();
    if (change.kind == ChangeKind::kDeleted) {
      service_.operator_.OnJobGone(key);
    } else {
      const Result<JobJson> object = ParseObject(change.object);
      if (!object.ok()) return OnTrouble(object.status().WithContext(key));
      Result<LonghaulJob> job = ReadLonghaulJob(*object);
      if (!job.ok()) return OnTrouble(job.status().WithContext(key));
      service_.operator_.OnJob(*std::move(job));
    }
    service_.Changed();
  }
  void OnSynced() override {
    synced = true;
    service_.OnViewSynced();
  }
  void OnTrouble(const Status& status) override { service_.OnTrouble("LonghaulJobs", status); }

  std::unique_ptr<WatchConnection> connection;
  bool synced = false;

 private:
  JobOperatorService& service_;
};

class JobOperatorService::PodView : public WatchSink {
 public:
  explicit PodView(JobOperatorService& service) : service_(service) {}

  void OnChange(const Change& change) override {
    const std::string key = change.meta.Key();
    if (change.kind == ChangeKind::kDeleted) {
      service_.operator_.OnPodGone(key);
    } else {
      const Result<JobJson> object = ParseObject(change.object);
      if (!object.ok()) return OnTrouble(object.status().WithContext(key));
      Result<JobPod> pod = ReadJobPod(*object);
      if (!pod.ok()) return OnTrouble(pod.status());
      service_.operator_.OnPod(*std::move(pod));
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
  JobOperatorService& service_;
};

JobOperatorService::JobOperatorService(io::EventLoop& loop, Client& client,
                                       JobOperatorSettings settings, ControllerPollSettings poll,
                                       std::function<bool()> leads, Log log)
    : loop_(loop),
      client_(client),
      operator_(std::move(settings)),
      leads_(std::move(leads)),
      log_(std::move(log)),
      poll_(
          loop, client, std::move(poll),
          [this](const JobOperator::Controller& of, ControllerReport report) {
            operator_.OnReport(of.job_key, of.pod_uid, std::move(report), io::MonotonicNow());
            Changed();
          },
          [this](const std::string& line) { Complain(line); }),
      jobs_(std::make_unique<JobView>(*this)),
      pods_(std::make_unique<PodView>(*this)) {
  const auto watch = [&](const Resource& resource, const std::string& selector, auto& view) {
    Client::WatchOptions options;
    options.resource = resource;
    options.settings.selector = selector;
    auto connection = client_.Watch(std::move(options), view);
    CHECK(connection.ok()) << connection.status();
    view.connection = *std::move(connection);
  };
  watch(LonghaulJobs(), "", *jobs_);
  watch(Pods(), "labelSelector=longhaul.dev%2Fjob", *pods_);
  WatchQueues();
  ReadKeys();
  AskControllers();
}

JobOperatorService::~JobOperatorService() {
  for (const auto& timer : {turn_, timer_, keys_, ask_}) {
    if (timer) loop_.Cancel(*timer);
  }
}

void JobOperatorService::WatchQueue(const Resource& resource, const std::string& selector,
                                    const std::string& what,
                                    std::function<Status(const Change&)> take) {
  const auto changed = [this, what, take = std::move(take)](const Change& change) {
    const Status status = take(change);
    if (!status.ok()) return OnTrouble(what, status.WithContext(change.meta.Key()));
    Changed();
  };
  const auto trouble = [this, what](const Status& status) { OnTrouble(what, status); };
  queues_.push_back(std::make_unique<OptionalWatch>(
      loop_, client_, resource, selector,
      OptionalWatch::Events{changed, [this] { OnViewSynced(); }, trouble}));
}

void JobOperatorService::WatchQueues() {
  WatchQueue(Workloads(), "labelSelector=longhaul.dev%2Fjob", "Workloads",
             [this](const Change& change) -> Status {
               if (change.kind == ChangeKind::kDeleted) {
                 operator_.OnWorkloadGone(change.meta.Key());
                 return {};
               }
               ASSIGN_OR_RETURN(const JobJson object, ParseObject(change.object));
               ASSIGN_OR_RETURN(Workload workload, ReadWorkload(object));
               operator_.OnWorkload(std::move(workload));
               return {};
             });
  WatchQueue(ResourceFlavors(), "", "ResourceFlavors", [this](const Change& change) -> Status {
    const std::string name = change.meta.name;
    if (change.kind == ChangeKind::kDeleted) {
      operator_.ChangeQueues([&](QueueObjects& queues) { queues.RemoveFlavor(name); });
      return {};
    }
    ASSIGN_OR_RETURN(const JobJson object, ParseObject(change.object));
    ASSIGN_OR_RETURN(const ResourceFlavor flavor, ReadResourceFlavor(object));
    operator_.ChangeQueues([&](QueueObjects& queues) { queues.SetFlavor(flavor); });
    return {};
  });
  const auto priorities = [this](PriorityKind kind) {
    return [this, kind](const Change& change) -> Status {
      const std::string name = change.meta.name;
      if (change.kind == ChangeKind::kDeleted) {
        operator_.ChangeQueues([&](QueueObjects& queues) { queues.RemovePriority(kind, name); });
        return {};
      }
      ASSIGN_OR_RETURN(const JobJson object, ParseObject(change.object));
      ASSIGN_OR_RETURN(const PriorityClass priority, ReadPriorityClass(kind, object));
      operator_.ChangeQueues([&](QueueObjects& queues) { queues.SetPriority(priority); });
      return {};
    };
  };
  WatchQueue(WorkloadPriorityClasses(), "", "WorkloadPriorityClasses",
             priorities(PriorityKind::kWorkload));
  WatchQueue(PriorityClasses(), "", "PriorityClasses", priorities(PriorityKind::kPod));
}

void JobOperatorService::Drain() {
  draining_ = true;
  for (const auto& watch : queues_) watch->Stop();
}

bool JobOperatorService::idle() const {
  return under_way_ == 0 && unsent_.empty() &&
         std::all_of(queues_.begin(), queues_.end(),
                     [](const auto& watch) { return watch->idle(); });
}

void JobOperatorService::ReadKeys() {
  const auto sent = client_.Send(TokenKeysCall(), [this](const Reply& reply) {
    --under_way_;
    OnKeys(reply);
  });
  under_way_ += sent.ok() ? 1 : 0;
  keys_ = loop_.After(kKeysPeriod, [this] { ReadKeys(); });
}

void JobOperatorService::OnKeys(const Reply& reply) {
  if (reply.ok() && reply.body.size() <= kMostKeys) {
    operator_.OnTokenKeys(reply.body);
    return Changed();
  }
  Complain(reply.ok() ? "the API server's list of keys is too long"
                      : "the keys of the API server's tokens: " + reply.verdict.status.message());
  if (keys_) loop_.Cancel(*keys_);
  keys_ = loop_.After(kKeysRetry, [this] { ReadKeys(); });
}

void JobOperatorService::AskControllers() {
  if (leads_() && synced_ && !draining_) poll_.Ask(operator_.Controllers());
  ask_ = loop_.After(kAskPeriod, [this] { AskControllers(); });
}

void JobOperatorService::OnViewSynced() {
  const bool queues_known = std::all_of(queues_.begin(), queues_.end(),
                                        [](const auto& watch) { return watch->is_known(); });
  if (!jobs_->synced || !pods_->synced || !queues_known) return;
  const bool served = queues_.front()->served();
  operator_.ChangeQueues([&](QueueObjects& queues) { queues.SetServed(served); });
  if (!synced_) {
    log_("running LonghaulJobs; " + std::to_string(jobs_->connection->state().objects()) +
         " exist");
  }
  synced_ = true;
  Changed();
}

void JobOperatorService::OnTrouble(const std::string& what, const Status& status) {
  Complain("the watch of " + what + ": " + status.message());
}

void JobOperatorService::Complain(const std::string& line) {
  if (complaints_.size() >= kMostComplaints) complaints_.clear();
  if (complaints_.insert(line).second) log_(line);
}

void JobOperatorService::Changed() {
  if (turn_ || !synced_) return;
  turn_ = loop_.After(Duration(0), [this] {
    turn_.reset();
    Advance();
  });
}

void JobOperatorService::Advance() {
  if (!leads_()) return;
  SendActions();
  if (draining_ || !unsent_.empty()) return;
  for (JobAction& action : operator_.Advance(io::MonotonicNow(), io::Now())) {
    unsent_.push_back(std::move(action));
  }
  SendActions();
  SetTimer();
}

void JobOperatorService::SetTimer() {
  if (timer_) loop_.Cancel(*timer_);
  timer_.reset();
  const std::optional<Instant> next = operator_.NextDeadline();
  if (!next) return;
  timer_ = loop_.After(std::max(Duration(0), *next - io::MonotonicNow()), [this] {
    timer_.reset();
    Changed();
  });
}

void JobOperatorService::SendActions() {
  while (!unsent_.empty() && Send(unsent_.front())) unsent_.pop_front();
}

// Returns false when the queue of its class is full.
bool JobOperatorService::Send(const JobAction& action) {
  Result<Call> call = CallFor(action);
  if (!call.ok()) {
    Complain(call.status().message());
    operator_.OnReply(action, ActionResult::kRefused, call.status().message(), io::MonotonicNow());
    return true;
  }
  if (client_.room(call->traffic) == 0) return std::holds_alternative<RecordEvent>(action);
  const auto sent = client_.Send(*std::move(call), [this, action](const Reply& reply) {
    --under_way_;
    OnReply(action, reply);
  });
  under_way_ += sent.ok() ? 1 : 0;
  return sent.ok();
}

void JobOperatorService::OnReply(const JobAction& action, const Reply& reply) {
  const bool expected = reply.ok() || reply.verdict.outcome == Outcome::kNotFound ||
                        reply.verdict.outcome == Outcome::kConflict;
  if (!expected) Complain(reply.verdict.status.message());
  operator_.OnReply(action, ResultOf(action, reply.verdict), reply.verdict.status.message(),
                    io::MonotonicNow());
  Changed();
}

}  // namespace longhaul::engines::kubernetes
