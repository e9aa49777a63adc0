#include "engines/kubernetes/jobs/simulation/simulated_jobs.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "engines/kubernetes/jobs/controller_report.h"
#include "engines/kubernetes/jobs/job_calls.h"
#include "engines/kubernetes/jobs/simulation/simulated_job_checks.h"

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kJobs = "/apis/longhaul.dev/v1/namespaces/ns/longhauljobs";
constexpr const char* kPods = "/api/v1/namespaces/ns/pods";

JobJson Ordered(const Change& change) {
  JobJson object = JobJson::parse(change.object.text, nullptr, false);
  CHECK(!object.is_discarded());
  return object;
}

bool IsLive(const JobPod& pod) { return !pod.being_deleted && !pod.ended(); }

}  // namespace

SimulatedJobs::SimulatedJobs(uint64_t seed, const JobFaults& faults)
    : rng_(seed),
      faults_(faults),
      plant_(
          api_, rng_, [this] { Changed(); }, [this](const std::string& line) { Log(line); }),
      kueue_(api_, plant_, rng_, [this](const std::string& line) { Log(line); }),
      faults_end_(agenda_.now()) {
  settings_.pods.image = "longhaul:test";
  ReplaceOperator();
  agenda_.After(seconds(1), [this] { Tick(); });
  agenda_.After(seconds(2), [this] { Poll(); });
  agenda_.After(seconds(1), [this] { Disturb(); });
}

SimulatedJobs::~SimulatedJobs() = default;

void SimulatedJobs::Log(const std::string& line) {
  log_ += ToString(agenda_.now()).substr(11, 12) + " " + line + "\n";
}

void SimulatedJobs::Break(const std::string& what) {
  if (!broken_.ok()) return;
  Log("BROKEN: " + what);
  broken_ = InternalError(what);
}

bool SimulatedJobs::Fault(bool kind, uint64_t one_in) {
  const bool happens = kind && agenda_.now() < faults_end_ && rng_.Below(one_in) == 0;
  happened_ += happens ? 1 : 0;
  return happens;
}

void SimulatedJobs::Changed() {
  for (const auto& watch : watches_) watch->Pump();
}

void SimulatedJobs::AddJob(const SimulatedJob& job) {
  jobs_[job.name] = job;
  Json workers = {
      {"desired", job.desired}, {"min", job.minimum}, {"max", job.maximum}, {"step", job.step}};
  Json meta = {{"name", job.name}};
  if (job.in_queue) meta["labels"][std::string(kQueueLabel)] = "team";
  const Json object = {
      {"metadata", std::move(meta)},
      {"spec", {{"workers", std::move(workers)}, {"job", {{"command", Json::array({"train"})}}}}}};
  const ApiResponse made = plant_.Do("POST", kJobs, object);
  CHECK(made.status == 201) << made.body;
  const std::string uid = Json::parse(made.body)["metadata"]["uid"];
  job_uids_.insert(uid);
  plant_.AddRun(uid, job.seconds, job.fails);
  Log("user makes " + job.name);
}

void SimulatedJobs::AddForeignPod(const std::string& name, const std::string& job, bool labelled) {
  Json meta = {{"name", name}};
  meta["labels"] = {{"longhaul.dev/role", "worker"}, {"longhaul.dev/index", "0"}};
  meta["labels"]["longhaul.dev/life"] = "7";
  if (labelled) meta["labels"]["longhaul.dev/job"] = job;
  const Json container = {{"name", "main"}, {"image", "x"}};
  const ApiResponse made = plant_.Do(
      "POST", kPods, {{"metadata", meta}, {"spec", {{"containers", Json::array({container})}}}});
  CHECK(made.status == 201) << made.body;
  foreign_.push_back(name);
}

void SimulatedJobs::FaultsUntil(Duration after) {
  faults_end_ = agenda_.now() + after;
  agenda_.At(faults_end_, [this] { EndFaults(); });
}

// --- The operator and what is between it and the API.

void SimulatedJobs::ReplaceOperator() {
  ++leader_;
  Log("operator " + std::to_string(leader_));
  watches_.clear();
  advance_at_.reset();
  seen_jobs_.clear();
  seen_pods_.clear();
  seen_workloads_.clear();
  ending_since_.clear();
  unanswered_.clear();
  operator_ = std::make_unique<JobOperator>(settings_);
  operator_->ChangeQueues([](QueueObjects& queues) {
    queues.SetServed(true);
    queues.SetFlavor({"default", {{{"pool", "a"}}, JobJson::array()}});
  });
  watches_.push_back(Watch(LonghaulJobs(), "", [this](const Change& change) { TakeJob(change); }));
  watches_.push_back(Watch(Pods(), "labelSelector=longhaul.dev%2Fjob",
                           [this](const Change& change) { TakePod(change); }));
  watches_.push_back(Watch(Workloads(), "labelSelector=longhaul.dev%2Fjob",
                           [this](const Change& change) { TakeWorkload(change); }));
  for (const auto& watch : watches_) {
    agenda_.After(SimulatedDelay(rng_), [this, of = watch.get(), leader = leader_] {
      if (leader == leader_) of->Pump();
    });
  }
  agenda_.After(SimulatedDelay(rng_), [this, leader = leader_] {
    if (leader != leader_) return;
    operator_->OnTokenKeys(keys_);
    Advance();
  });
}

std::unique_ptr<SimulatedWatch> SimulatedJobs::Watch(const Resource& resource,
                                                     const std::string& selector,
                                                     std::function<void(const Change&)> take) {
  SimulatedWatch::Events events;
  events.take = std::move(take);
  events.delivered = [this] { Advance(); };
  events.breaks = [this] { return Fault(faults_.watches, 200); };
  return std::make_unique<SimulatedWatch>(agenda_, api_, rng_, resource, selector,
                                          std::move(events));
}

void SimulatedJobs::TakeJob(const Change& change) {
  const std::string key = change.meta.Key();
  if (change.kind == ChangeKind::kDeleted) {
    seen_jobs_.erase(key);
    return operator_->OnJobGone(key);
  }
  const Result<LonghaulJob> job = ReadLonghaulJob(Ordered(change));
  CHECK(job.ok()) << job.status();
  seen_jobs_.insert_or_assign(key, *job);
  operator_->OnJob(*job);
}

void SimulatedJobs::TakePod(const Change& change) {
  const std::string key = change.meta.Key();
  if (change.kind == ChangeKind::kDeleted) {
    seen_pods_.erase(key);
    return operator_->OnPodGone(key);
  }
  const Result<JobPod> pod = ReadJobPod(Ordered(change));
  CHECK(pod.ok()) << pod.status();
  seen_pods_.insert_or_assign(key, *pod);
  unanswered_.erase(pod->name);
  if (!IsLive(*pod)) ending_since_.try_emplace(pod->uid, agenda_.now());
  operator_->OnPod(*pod);
}

void SimulatedJobs::TakeWorkload(const Change& change) {
  const std::string key = change.meta.Key();
  if (change.kind == ChangeKind::kDeleted) {
    std::erase_if(seen_workloads_, [&](const auto& each) { return each.second.Key() == key; });
    return operator_->OnWorkloadGone(key);
  }
  const Result<Workload> workload = ReadWorkload(Ordered(change));
  CHECK(workload.ok()) << workload.status();
  seen_workloads_.insert_or_assign(workload->owner_uid, *workload);
  operator_->OnWorkload(*workload);
}

void SimulatedJobs::Advance() {
  for (const auto& watch : watches_) {
    if (!watch->synced()) return;
  }
  for (const JobAction& action : operator_->Advance(agenda_.now(), agenda_.now())) {
    CheckAction(action);
    Carry(action);
  }
  const std::optional<Instant> next = operator_->NextDeadline();
  turns_ = next && *next <= agenda_.now() ? turns_ + 1 : 0;
  if (turns_ > 100) Break("the operator is due at once again and again");
  if (!next || (advance_at_ && *advance_at_ <= *next)) return;
  advance_at_ = *next;
  agenda_.At(*next, [this, leader = leader_, at = *next] {
    if (leader != leader_ || advance_at_ != at) return;
    advance_at_.reset();
    Advance();
  });
}

void SimulatedJobs::Carry(const JobAction& action) {
  if (Fault(faults_.lost_messages, 30)) {
    agenda_.After(SimulatedDelay(rng_), [this, action, leader = leader_] {
      if (leader == leader_) Reply(action, {}, false);
    });
    return;
  }
  // What a broken connection still delivers can be late.
  const Duration late = Fault(faults_.operators, 10) ? seconds(rng_.Below(60)) : Duration(0);
  agenda_.After(SimulatedDelay(rng_) + late,
                [this, action, leader = leader_] { Execute(action, leader); });
}

// The request arrives, whoever leads by then.
void SimulatedJobs::Execute(const JobAction& action, uint64_t leader) {
  const Result<Call> call = CallFor(action);
  CHECK(call.ok()) << call.status();
  ApiResponse response;
  if (Fault(faults_.refusals, 20)) {
    const int codes[] = {409, 429, 500, 403};
    const int code = codes[rng_.Below(4)];
    const char* const reason = code == 409 ? "Conflict" : "Injected";
    response = {code, StatusJson({code, reason, "injected fault", Json()}).dump(), {}};
  } else {
    const auto* patch = std::get_if<PatchJob>(&action);
    const Json* stored = patch == nullptr ? nullptr : Job(patch->job.name);
    const Json before = stored == nullptr ? Json() : *stored;
    const bool late = leader != leader_;
    api_.SetTime(agenda_.now());
    response = plant_.Do(call->method, call->target, Json::parse(call->body), call->content_type);
    if (response.status < 300) CheckStored(action, before);
    if (!std::holds_alternative<RecordEvent>(action)) {
      Log(std::string(late ? "(late) " : "") + call->Text() + " " + TargetOf(action) + ": " +
          std::to_string(response.status) + PhaseIn(action));
    }
  }
  const bool answered = !Fault(faults_.lost_messages, 30);
  agenda_.After(SimulatedDelay(rng_), [this, action, leader, response, answered] {
    if (leader == leader_) Reply(action, response, answered);
  });
}

void SimulatedJobs::Reply(const JobAction& action, const ApiResponse& response, bool answered) {
  const Result<Call> call = CallFor(action);
  JsonParser parser;
  const PaddedString body(response.body);
  const Result<ApiStatus> details = ReadApiStatus(parser, body.view());
  const Verdict verdict = answered
                              ? engines::kubernetes::Judge(*call, response.status, "",
                                                           details.ok() ? *details : ApiStatus())
                              : Unreachable(*call, Unavailable("lost"));
  if (const auto* create = std::get_if<CreateJobPod>(&action)) unanswered_.erase(create->pod.name);
  operator_->OnReply(action, ResultOf(action, verdict), verdict.status.message(), agenda_.now());
  Advance();
}

void SimulatedJobs::Poll() {
  agenda_.After(seconds(2), [this] { Poll(); });
  if (Fault(faults_.silence, 60)) silent_until_ = agenda_.now() + seconds(rng_.Below(90));
  if (agenda_.now() < silent_until_ && agenda_.now() < faults_end_) return;
  for (const JobOperator::Controller& controller : operator_->Controllers()) {
    const auto answers = plant_.Ask(controller.pod_uid, controller.ip);
    if (!answers) continue;
    Result<ControllerReport> report = ReadControllerReport(answers->first, answers->second);
    CHECK(report.ok()) << report.status();
    agenda_.After(
        SimulatedDelay(rng_), [this, controller, report = *std::move(report), leader = leader_] {
          if (leader != leader_) return;
          operator_->OnReport(controller.job_key, controller.pod_uid, report, agenda_.now());
          Advance();
        });
  }
}

// --- What happens to them.

void SimulatedJobs::Tick() {
  agenda_.After(seconds(1), [this] { Tick(); });
  api_.SetTime(agenda_.now());
  plant_.Tick(agenda_.now());
  if (const Status holds = kueue_.Tick(agenda_.now()); !holds.ok()) Break(holds.message());
  CheckRest();
}

void SimulatedJobs::Disturb() {
  agenda_.After(milliseconds(500 + static_cast<int64_t>(rng_.Below(8'000))), [this] { Disturb(); });
  api_.SetTime(agenda_.now());
  if (Fault(faults_.operators, 5)) ReplaceOperator();
  if (Fault(faults_.watches, 4)) api_.Compact();
  if (faults_.nodes) plant_.RepairNodes(agenda_.now() >= faults_end_);
  if (Fault(faults_.nodes, 6)) plant_.BreakNode();
  if (Fault(faults_.deaths, 4)) plant_.HurtContainer();
  if (Fault(faults_.users, 6)) DisturbJob();
  if (Fault(faults_.room, 6)) plant_.EvictExtra();
  if (Fault(faults_.room, 12)) plant_.AddNodes(1);
  if (Fault(faults_.evictions, 4)) kueue_.Evict(agenda_.now());
  if (Fault(faults_.evictions, 8)) kueue_.Deactivate(agenda_.now());
  if (Fault(faults_.evictions, 8)) kueue_.Activate(false);
  if (!Fault(faults_.deletions, 4)) return;
  const std::vector<ObjectName> pods = api_.Names("pods");
  if (pods.empty()) return;
  const std::string& name = pods[rng_.Below(pods.size())].name;
  if (std::find(foreign_.begin(), foreign_.end(), name) != foreign_.end()) return;
  Log("user deletes " + name);
  plant_.Do("DELETE", std::string(kPods) + "/" + name, Json::object());
}

ApiResponse SimulatedJobs::PatchJobObject(const std::string& name, const Json& patch) {
  return plant_.Patch(std::string(kJobs) + "/" + name, patch);
}

void SimulatedJobs::DisturbJob() {
  auto at = jobs_.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(rng_.Below(jobs_.size())));
  SimulatedJob& job = at->second;
  const Json* object = Job(job.name);
  if (object == nullptr) {
    if (rng_.Below(2) == 0) AddJob(SimulatedJob(job));  // another one of this name
    return;
  }
  const bool suspended = object->at("spec").value("suspend", false);
  const uint64_t what = rng_.Below(faults_.evictions ? 6 : 5);
  switch (what) {
    case 0:
    case 1:
      Log("user " + std::string(suspended ? "resumes " : "suspends ") + job.name);
      PatchJobObject(job.name, {{"spec", {{"suspend", !suspended}}}});
      return;
    case 2:
      job.desired = job.minimum + job.step * static_cast<uint32_t>(rng_.Below(3));
      job.maximum = job.desired + job.step * static_cast<uint32_t>(rng_.Below(3));
      Log("user scales " + job.name + " to " + std::to_string(job.desired) + ", at most " +
          std::to_string(job.maximum));
      PatchJobObject(job.name,
                     {{"spec", {{"workers", {{"desired", job.desired}, {"max", job.maximum}}}}}});
      return;
    case 3:
      Log("user changes " + job.name);
      if (rng_.Below(2) == 0) {
        const Json meta = {{"annotations", {{"note", std::to_string(rng_.Below(9))}}}};
        PatchJobObject(job.name, {{"spec", {{"template", {{"metadata", meta}}}}}});
        return;
      }
      PatchJobObject(job.name, {{"spec", {{"job", {{"command", Json::array({rng_.Below(9)})}}}}}});
      keys_ = Json{{"keys", Json::array({rng_.Below(9)})}}.dump();
      operator_->OnTokenKeys(keys_);
      return;
    case 5: {
      job.in_queue = !job.in_queue;
      Log("user puts " + job.name + (job.in_queue ? " into" : " out of") + " the queue");
      const Json queue = job.in_queue ? Json("team") : Json();
      PatchJobObject(job.name, {{"metadata", {{"labels", {{std::string(kQueueLabel), queue}}}}}});
      return;
    }
    default:
      Log("user deletes " + job.name);
      plant_.Do("DELETE", std::string(kJobs) + "/" + job.name, Json::object());
  }
}

// A job that is suspended or deactivated stays it for a while, so that its rest is seen.
void SimulatedJobs::EndFaults() {
  Log("the faults end");
  plant_.RepairNodes(true);
  for (const std::string& name : foreign_) {
    api_.SetTime(agenda_.now());
    if (api_.Find("pods", ObjectName{"ns", name}) == nullptr) Break(name + " is gone");
    api_.Remove("pods", ObjectName{"ns", name});
  }
  Changed();
  agenda_.After(minutes(15), [this] {
    kueue_.Activate(true);
    for (const auto& [name, job] : jobs_) {
      if (Job(name) == nullptr || !Job(name)->at("spec").value("suspend", false)) continue;
      Log("user resumes " + name);
      PatchJobObject(name, {{"spec", {{"suspend", false}}}});
    }
  });
}

Status SimulatedJobs::Run(Duration time, const std::function<bool()>& done) {
  const Instant end = agenda_.now() + time;
  while (broken_.ok() && !done() && agenda_.Step(end)) {
  }
  return broken_;
}

bool SimulatedJobs::AllFinished() const {
  if (agenda_.now() < faults_end_) return false;
  for (const ObjectName& name : api_.Names("longhauljobs")) {
    const std::string phase = PhaseOf(*Job(name.name));
    if (phase != "Succeeded" && phase != "Failed") return false;
  }
  return true;
}

}  // namespace longhaul::engines::kubernetes
