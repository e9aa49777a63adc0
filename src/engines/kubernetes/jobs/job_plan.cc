// What the operator does for one job.
#include <algorithm>
#include <utility>

#include "engines/kubernetes/jobs/job_operator.h"

namespace longhaul::engines::kubernetes {
namespace {

// A pod that has lived for so long is replaced at once.
constexpr Duration kLongLife = std::chrono::minutes(10);

PodName NameOf(const JobPod& pod) { return {pod.namespace_name, pod.name, pod.uid}; }

// One that still serves: not on its way out, and not at its end.
bool IsLive(const JobPod& pod) { return !pod.being_deleted && !pod.ended(); }

// The life after those that are there.
uint32_t NextLife(const std::vector<const JobPod*>& pods) {
  uint32_t next = 0;
  for (const JobPod* pod : pods) next = std::max(next, pod->life + 1);
  return next;
}

const JobPod* NewestLive(const std::vector<const JobPod*>& pods) {
  const JobPod* newest = nullptr;
  for (const JobPod* pod : pods) {
    if (IsLive(*pod) && (newest == nullptr || pod->life > newest->life)) newest = pod;
  }
  return newest;
}

// Whether the workers have trained since the job was last suspended.
bool HasBegun(const LonghaulJob& job) {
  const JobPhase phase = StoredPhase(job);
  return phase == JobPhase::kRunning || phase == JobPhase::kRestarting;
}

std::string Count(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// What a controller published at its end.
struct Outcome {
  bool succeeded = false;
  std::string message;
  std::optional<uint64_t> restarts;
  std::optional<double> goodput;
};

std::optional<Outcome> ReadOutcome(const std::string& text) {
  const JobJson json = JobJson::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto word = json.find("outcome");
  if (word == json.end() || (*word != "succeeded" && *word != "failed")) return std::nullopt;
  Outcome outcome;
  outcome.succeeded = *word == "succeeded";
  const auto message = json.find("message");
  if (message != json.end() && message->is_string()) outcome.message = *message;
  const auto restarts = json.find("restarts");
  if (restarts != json.end() && restarts->is_number_unsigned()) outcome.restarts = *restarts;
  const auto goodput = json.find("goodput");
  if (goodput != json.end() && goodput->is_number()) outcome.goodput = *goodput;
  return outcome;
}

}  // namespace

void JobOperator::Plan(Look& look, const Status& usable) {
  const LonghaulJob& job = look.job;
  if (!job.managed_by.empty() && job.managed_by != kOperatorName) return;
  if (job.being_deleted) return PlanDeletion(look);
  if (IsFinished(job)) return PlanFinished(look);
  if (!job.HasFinalizer()) {
    JobJson finalizers = job.finalizers;
    finalizers.push_back(kJobFinalizer);
    Act(look,
        PatchJob{NameOf(job),
                 {{"metadata",
                   {{"resourceVersion", job.version}, {"finalizers", std::move(finalizers)}}}}});
    return;
  }
  JobFacts facts;
  facts.desired = job.desired;
  facts.restarts = StoredRestarts(job);
  facts.goodput = StoredGoodput(job);
  if (!usable.ok()) {
    StopAndRelease(look);
    facts.phase = JobPhase::kFailed;
    facts.reason = kInvalidSpec;
    facts.message = usable.message();
  } else if (job.suspend || !look.queue.runs) {
    facts = PlanStop(look, std::move(facts));
  } else {
    facts = PlanRun(look, std::move(facts));
  }
  WriteStatus(look, facts);
}

// The pods are made anew by nobody; the controller pod stays for its log.
void JobOperator::PlanFinished(Look& look) {
  for (const JobPod* worker : PodsOf(look, JobPodRole::kWorker)) Delete(look, *worker);
  // One that an earlier operator has requested, and that was made late.
  for (const JobPod* controller : PodsOf(look, JobPodRole::kController)) {
    if (!controller->ended()) Delete(look, *controller);
  }
  // Their quota is needed until they have ended.
  bool remains = false;
  for (const auto& [name, pod] : look.work.pods) {
    remains = remains || (pod.owner_uid == look.job.uid && !pod.ended());
  }
  if (look.queue.when_stopped && !remains && !MayHaveMore(look)) {
    Act(look, *look.queue.when_stopped);
  }
}

void JobOperator::PlanDeletion(Look& look) {
  if (!StopAndRelease(look) || !look.job.HasFinalizer()) return;
  JobJson finalizers = JobJson::array();
  for (const std::string& each : look.job.finalizers) {
    if (each != kJobFinalizer) finalizers.push_back(each);
  }
  Act(look,
      PatchJob{NameOf(look.job),
               {{"metadata",
                 {{"resourceVersion", look.job.version}, {"finalizers", std::move(finalizers)}}}}});
}

// Deletes the controller and, once it has ended, the workers. Returns whether no pod is left.
bool JobOperator::StopPods(Look& look) {
  const std::vector<const JobPod*> controllers = PodsOf(look, JobPodRole::kController);
  const std::vector<const JobPod*> workers = PodsOf(look, JobPodRole::kWorker);
  for (const JobPod* pod : controllers) Delete(look, *pod);
  if (ControllersEnd(look, controllers)) {
    for (const JobPod* pod : workers) Delete(look, *pod);
  }
  return controllers.empty() && workers.empty();
}

// The same, and does what the queue requires when no pod can exist any more. Returns whether
// nothing is left to do.
bool JobOperator::StopAndRelease(Look& look) {
  if (!StopPods(look) || MayHaveMore(look)) return false;
  if (!look.queue.when_stopped) return true;
  Act(look, *look.queue.when_stopped);
  return false;
}

// Whether they have ended, or have had controller_patience for a last checkpoint: on a node that
// does not answer a pod stays, and the workers must not hold their devices as long.
bool JobOperator::ControllersEnd(Look& look, const std::vector<const JobPod*>& controllers) {
  bool remains = false;
  for (const JobPod* pod : controllers) {
    if (!pod->ended() && !pod->being_deleted) return false;
    remains = remains || !pod->ended();
  }
  if (!remains) return true;
  if (!look.work.without_controller) look.work.without_controller = look.now;
  const Instant late = *look.work.without_controller + settings_.controller_patience;
  if (look.now >= late) return true;
  look.AgainAt(late);
  return false;
}

// Whether a pod may exist that was requested and has not been observed.
bool JobOperator::MayHaveMore(Look& look) const {
  for (const auto& [target, pending] : look.work.pending) {
    if (!target.starts_with("pod ")) continue;
    const auto pod = look.work.pods.find(target.substr(4));
    if (pod != look.work.pods.end() && pod->second.owner_uid == look.job.uid) continue;
    if (!pending.answered) return true;
    if (look.now >= pending.unsure_until) continue;
    look.AgainAt(pending.unsure_until);
    return true;
  }
  return false;
}

JobFacts JobOperator::PlanStop(Look& look, JobFacts facts) {
  StopAndRelease(look);
  const bool stopped =
      PodsOf(look, JobPodRole::kController).empty() && PodsOf(look, JobPodRole::kWorker).empty();
  if (stopped) look.work.lives.clear();
  facts.phase = JobPhase::kSuspended;
  if (look.job.suspend) {
    facts.reason = stopped ? "Suspended" : "Stopping";
    facts.message = stopped ? "spec.suspend is true" : "its pods end, with a last checkpoint";
  } else {
    // Its queue does not let it run.
    facts.reason = look.queue.reason;
    facts.message = look.queue.message;
    if (look.work.refused == "workload" && !look.work.refusal.empty()) {
      facts.reason = "Refused";
      facts.message = look.work.refusal;
    }
  }
  return facts;
}

JobFacts JobOperator::PlanRun(Look& look, JobFacts facts) {
  if (look.queue.now) Act(look, *look.queue.now);
  facts.phase = HasBegun(look.job) ? JobPhase::kRestarting : JobPhase::kQueued;
  facts.reason = "WaitsForController";
  const JobPod* controller = PlanController(look, facts);
  if (controller == nullptr) return facts;
  if (const auto outcome = ReadOutcome(controller->outcome); outcome && controller->succeeded) {
    facts.phase = outcome->succeeded ? JobPhase::kSucceeded : JobPhase::kFailed;
    facts.reason = outcome->succeeded ? "Finished" : "JobFailed";
    facts.message = outcome->message;
    facts.restarts = outcome->restarts.value_or(facts.restarts);
    facts.goodput = outcome->goodput.value_or(facts.goodput);
    return facts;
  }
  PlanWorkers(look, *controller, facts);
  return facts;
}

const JobPod* JobOperator::PlanController(Look& look, JobFacts& facts) {
  const std::vector<const JobPod*> controllers = PodsOf(look, JobPodRole::kController);
  for (const JobPod* pod : controllers) {
    if (!pod->being_deleted && pod->succeeded && ReadOutcome(pod->outcome)) return pod;
  }
  const JobPod* serves = NewestLive(controllers);
  for (const JobPod* pod : controllers) {
    if (pod != serves) Delete(look, *pod);  // it has failed, or is an older one
  }
  if (serves == nullptr) {
    MakeController(look, facts);
    return nullptr;
  }
  look.work.without_controller.reset();
  if (serves->job_file != look.job_file || !IsCurrent(look, *serves)) {
    // The job was changed: it stops with a last checkpoint, and begins again.
    Delete(look, *serves);
    facts.reason = "Changed";
    facts.message = "the spec has changed: the job is started again";
    return nullptr;
  }
  if (serves->token_keys != token_keys_ && !token_keys_.empty()) {
    const JobJson annotations = {{kKeysAnnotation, token_keys_}};
    Act(look, PatchJobPod{NameOf(*serves), {{"metadata", {{"annotations", annotations}}}}});
  }
  return serves;
}

bool JobOperator::IsCurrent(const Look& look, const JobPod& pod) {
  if (!pod.template_hash.empty() && pod.template_hash != look.template_hash) return false;
  if (pod.role == JobPodRole::kController) return true;
  // A change of `desired` makes a worker another kind.
  return pod.index < look.most && pod.extra == (pod.index >= look.job.desired);
}

void JobOperator::MakeController(Look& look, JobFacts& facts) {
  const std::vector<const JobPod*> before = PodsOf(look, JobPodRole::kController);
  if (token_keys_.empty()) {
    facts.message = "the keys of the API server's tokens are not known yet";
    return;
  }
  if (!before.empty()) {
    // Two controllers of one job would both command its run directory.
    if (!look.work.without_controller) look.work.without_controller = look.now;
    const Instant late = *look.work.without_controller + settings_.controller_patience;
    if (look.now < late) {
      look.AgainAt(late);
      facts.message = "the controller before is ending: " + before.front()->name;
      return;
    }
  }
  if (!look.work.refusal.empty()) {
    facts.reason = "Refused";
    facts.message = look.work.refusal;
  }
  const uint32_t life = NextLife(before);
  JobJson pod = ControllerPod(look.job, settings_.pods, life, look.job_file, token_keys_,
                              look.queue.controller);
  Act(look, CreateJobPod{{look.job.namespace_name, ControllerPodName(look.job, life), ""},
                         std::move(pod)});
}

void JobOperator::PlanWorkers(Look& look, const JobPod& controller, JobFacts& facts) {
  const ControllerPlace place = PlaceOf(controller);
  std::map<uint32_t, std::vector<const JobPod*>> by_index;
  for (const JobPod* pod : PodsOf(look, JobPodRole::kWorker)) by_index[pod->index].push_back(pod);
  ServingWorkers workers;
  for (const auto& [index, pods] : by_index) {
    const JobPod* serves = NewestLive(pods);
    if (serves != nullptr && !IsCurrent(look, *serves)) serves = nullptr;
    for (const JobPod* pod : pods) {
      if (pod != serves) Delete(look, *pod);
    }
    if (serves != nullptr) workers[index] = serves;
  }
  if (place.address.empty()) {
    facts.message = controller.trouble.empty() ? "the controller pod starts" : controller.trouble;
  } else {
    for (uint32_t index = 0; index < look.job.desired; ++index) {
      MakeWorker(look, index, by_index[index], place);
    }
    GrowthDecision growth;
    if (IsTraining(look, controller)) growth = DecideGrowth(look.job, look.most, workers);
    for (const uint32_t index : growth.missing) MakeWorker(look, index, by_index[index], place);
    for (const JobPod* worker : growth.gated) RemoveGate(look, *worker);
    for (const auto& [index, worker] : workers) PlanWorker(look, *worker, controller);
  }
  const auto extra = workers.lower_bound(look.job.desired);
  const bool all_exist = std::distance(workers.begin(), extra) == look.job.desired;
  for (auto worker = workers.begin(); all_exist && worker != extra; ++worker) {
    if (worker->second->gated) RemoveGate(look, *worker->second);
  }
  Judge(look, controller, workers, facts);
}

void JobOperator::RemoveGate(Look& look, const JobPod& worker) {
  Act(look, PatchJobPod{NameOf(worker), {{"spec", {{"schedulingGates", nullptr}}}}});
}

// One that fails as soon as it is made is made again with longer and longer pauses.
void JobOperator::MakeWorker(Look& look, uint32_t index, const std::vector<const JobPod*>& before,
                             const ControllerPlace& place) {
  if (NewestLive(before) != nullptr) return;
  // A pod that is gone leaves its name, too.
  const auto gone = look.work.lives.find(index);
  const uint32_t life =
      std::max(gone == look.work.lives.end() ? 0 : gone->second, NextLife(before));
  const auto last = look.work.made.find(index);
  Creations made{look.now, 0};
  if (last != look.work.made.end()) {
    const Instant due = last->second.last + Backoff(last->second.in_a_row);
    if (look.now < due) return look.AgainAt(due);
    const bool soon = look.now - last->second.last < kLongLife;
    made.in_a_row = soon ? last->second.in_a_row + 1 : 0;
  }
  const bool acts =
      Act(look, CreateJobPod{{look.job.namespace_name, WorkerPodName(look.job, index, life), ""},
                             WorkerPod(look.job, settings_.pods, index, life, place,
                                       look.queue.WorkerAt(index))});
  if (acts) look.work.made[index] = made;
}

void JobOperator::PlanWorker(Look& look, const JobPod& worker, const JobPod& controller) {
  const ControllerPlace place = PlaceOf(controller);
  if (worker.controller != place.address || worker.worker_authority != place.authority) {
    look.work.moved[worker.uid] = look.now;
    const JobJson annotations = {{kControllerAnnotation, place.address},
                                 {kAuthorityAnnotation, place.authority}};
    Act(look, PatchJobPod{NameOf(worker), {{"metadata", {{"annotations", annotations}}}}});
  }
  if (!IsLost(look, worker, controller) || !Delete(look, worker)) return;
  Act(look, RecordEvent{NameOf(look.job),
                        EventOf(look.job, "Warning", "WorkerLost",
                                worker.name + " on " + worker.node +
                                    " runs, and its agent is not connected: it is replaced",
                                look.wall)});
}

bool JobOperator::IsReported(const Look& look, const JobPod& controller) const {
  return look.work.report && look.work.reporter == controller.uid &&
         look.now - look.work.reported_at < settings_.report_life;
}

bool JobOperator::IsTraining(const Look& look, const JobPod& controller) const {
  return IsReported(look, controller) && look.work.report->training &&
         !look.work.report->recovering;
}

bool JobOperator::IsConnected(const Look& look, const JobPod& worker) const {
  return look.work.report && look.work.report->connected.contains(worker.name);
}

bool JobOperator::IsLost(Look& look, const JobPod& worker, const JobPod& controller) {
  if (!IsReported(look, controller) || !worker.running || IsConnected(look, worker)) {
    look.work.unconnected.erase(worker.uid);
    return false;
  }
  const Instant since = look.work.unconnected.try_emplace(worker.uid, look.now).first->second;
  Instant late = since + settings_.lost_patience;
  const auto moved = look.work.moved.find(worker.uid);
  if (moved != look.work.moved.end()) {
    late = std::max(late, moved->second + settings_.moved_patience);
  }
  if (look.now >= late) return true;
  look.AgainAt(late);
  return false;
}

bool JobOperator::KeepsRunning(Look& look, const JobPod& controller, JobFacts& facts) const {
  Work& work = look.work;
  if (StoredPhase(look.job) != JobPhase::kRunning || !controller.running) return false;
  const bool was_reported = work.report && work.reporter == controller.uid;
  if (was_reported) work.silent_since = work.reported_at;
  if (!work.silent_since) work.silent_since = look.now;
  const Instant late = *work.silent_since + settings_.report_life;
  if (look.now >= late) return false;
  look.AgainAt(late);
  facts.phase = JobPhase::kRunning;
  facts.reason = "Training";
  facts.ready = StoredReady(look.job);
  return true;
}

// The phase, from the pods and from what the controller reports.
void JobOperator::Judge(Look& look, const JobPod& controller, const ServingWorkers& workers,
                        JobFacts& facts) const {
  const Work& work = look.work;
  const bool reported = IsReported(look, controller);
  if (reported) {
    look.AgainAt(work.reported_at + settings_.report_life);
    facts.restarts = work.report->restarts;
    facts.goodput = work.report->goodput;
    look.work.silent_since.reset();
  } else if (KeepsRunning(look, controller, facts)) {
    return;
  }
  size_t made = 0;
  size_t placed = 0;
  uint32_t ready = 0;
  std::string trouble;
  for (const auto& [index, worker] : workers) {
    const bool is_ready = worker->running && (!reported || IsConnected(look, *worker));
    facts.ready += is_ready ? 1 : 0;
    // The job runs without the extra ones.
    if (worker->extra) continue;
    ++made;
    ready += is_ready ? 1 : 0;
    placed += worker->node.empty() ? 0 : 1;
    if (!worker->running && trouble.empty() && !worker->trouble.empty()) {
      trouble = worker->name + ": " + worker->trouble;
    }
  }
  if (IsTraining(look, controller)) {
    facts.phase = JobPhase::kRunning;
    facts.reason = "Training";
    if (!work.growth_refusal.empty()) {
      facts.message = "no more workers can be made: " + work.growth_refusal;
    }
    return;
  }
  if (HasBegun(look.job)) {
    facts.phase = JobPhase::kRestarting;
    facts.reason = ready < look.job.desired ? "WorkersMissing"
                   : reported               ? "Recovering"
                                            : "NoReport";
    facts.message = trouble.empty() && reported ? work.report->fault : trouble;
    return;
  }
  if (placed == look.job.desired) {
    facts.phase = JobPhase::kPlaced;
    facts.reason = "Starting";
    facts.message = trouble;
    return;
  }
  facts.phase = JobPhase::kQueued;
  if (!look.work.refusal.empty()) {
    facts.reason = "Refused";
    facts.message = look.work.refusal;
  } else if (!trouble.empty()) {
    facts.reason = "WaitsForNodes";
    facts.message = trouble;
  } else if (facts.message.empty()) {
    facts.reason = made < look.job.desired ? "MakesPods" : "WaitsForNodes";
    facts.message = Count(placed, "worker pod") + " of " + std::to_string(look.job.desired) +
                    (placed == 1 ? " has a node" : " have a node");
  }
}

void JobOperator::WriteStatus(Look& look, const JobFacts& facts) {
  JobJson status = StatusOf(look.job, facts, look.wall);
  const bool news = IsNews(look.job.status, status);
  if (!news) {
    if (look.job.status == status) return;
    const Instant due = look.work.status_at.value_or(look.now) + settings_.status_period;
    if (!look.work.status_at) look.work.status_at = look.now;
    if (look.now < due) return look.AgainAt(due);
  }
  const JobPhase before = StoredPhase(look.job);
  const bool first = look.job.status.is_null() || look.job.status.empty();
  // With the version: a status that is decided from an older one, or arrives late from an operator
  // that has been replaced, would take back an end that is stored.
  const JobJson patch = {{"metadata", {{"resourceVersion", look.job.version}}}, {"status", status}};
  if (!Act(look, PatchJob{NameOf(look.job), patch, true})) return;
  look.work.status_at = look.now;
  // A restart often takes less time than passes between two reports of the controller. Then the
  // phase stays Running, and only the number of restarts shows it.
  if (facts.restarts > StoredRestarts(look.job)) {
    const std::string why = look.work.report ? look.work.report->fault : "";
    Act(look, RecordEvent{NameOf(look.job), EventOf(look.job, "Warning", "Restarted",
                                                    "the workers started again, restart " +
                                                        std::to_string(facts.restarts) +
                                                        (why.empty() ? "" : ": " + why),
                                                    look.wall)});
  }
  if (!first && before == facts.phase) return;
  const bool bad = facts.phase == JobPhase::kFailed || facts.phase == JobPhase::kRestarting;
  std::string note = facts.message.empty() ? facts.reason : facts.message;
  if (facts.phase == JobPhase::kRunning) {
    note = "training on " + Count(facts.ready, "worker") +
           "; restarts: " + std::to_string(facts.restarts);
  }
  Act(look, RecordEvent{NameOf(look.job), EventOf(look.job, bad ? "Warning" : "Normal",
                                                  PhaseName(facts.phase), note, look.wall)});
}

}  // namespace longhaul::engines::kubernetes
