#include "engines/kubernetes/jobs/job_operator.h"

#include <algorithm>
#include <variant>

namespace longhaul::engines::kubernetes {
namespace {

// How long what was done may take to be observed.
constexpr Duration kUnobserved = std::chrono::seconds(10);
constexpr int kMostDoublings = 16;

std::string JobKeyOf(const JobAction& action) {
  if (const auto* job = std::get_if<PatchJob>(&action)) return job->job.Key();
  if (const auto* event = std::get_if<RecordEvent>(&action)) return event->job.Key();
  if (const auto* create = std::get_if<CreateWorkload>(&action)) return create->job.Key();
  if (const auto* remove = std::get_if<DeleteWorkload>(&action)) return remove->job.Key();
  if (const auto* patch = std::get_if<PatchWorkload>(&action)) return patch->job.Key();
  return "";
}

JobWish WishOf(const LonghaulJob& job, const Status& usable) {
  if (job.being_deleted) return JobWish::kStop;
  if (IsFinished(job)) return JobWish::kFinish;
  return job.suspend || !usable.ok() ? JobWish::kStop : JobWish::kRun;
}

}  // namespace

std::string TargetOf(const JobAction& action) {
  if (const auto* create = std::get_if<CreateJobPod>(&action)) return "pod " + create->pod.name;
  if (const auto* remove = std::get_if<DeleteJobPod>(&action)) return "pod " + remove->pod.name;
  if (const auto* patch = std::get_if<PatchJobPod>(&action)) return "pod " + patch->pod.name;
  if (const auto* job = std::get_if<PatchJob>(&action)) return job->status ? "status" : "job";
  return std::holds_alternative<RecordEvent>(action) ? "event" : "workload";
}

JobOperator::Work& JobOperator::Mark(const std::string& key) {
  dirty_.insert(key);
  return jobs_[key];
}

void JobOperator::OnJob(LonghaulJob job) {
  Work& work = Mark(job.Key());
  if (work.job && work.job->uid != job.uid) {
    // Another job of this name: nothing that was known is about it.
    Forget(work);
  }
  // What was refused may not be what is done now.
  if (work.job && work.job->generation != job.generation) {
    work.refusal.clear();
    work.growth_refusal.clear();
  }
  for (const char* target : {"job", "status"}) Observed(work, target);
  work.job = std::move(job);
}

void JobOperator::OnJobGone(const std::string& key) {
  Forget(Mark(key));
  EraseIfEmpty(key);
}

// Keeps what exists beside the job.
void JobOperator::Forget(Work& work) {
  Work kept;
  kept.pods = std::move(work.pods);
  kept.workload = std::move(work.workload);
  work = std::move(kept);
}

void JobOperator::EraseIfEmpty(const std::string& key) {
  const Work& work = jobs_[key];
  if (work.job || work.workload || !work.pods.empty()) return;
  jobs_.erase(key);
  dirty_.erase(key);
  wakes_.Set(key, std::nullopt);
}

void JobOperator::ForgetRefusal(Work& work, const std::string& target) {
  if (work.refused == target) work.refusal.clear();
}

void JobOperator::OnPod(JobPod pod) {
  const std::string key = pod.namespace_name + "/" + pod.job;
  const auto known = job_of_pod_.find(pod.Key());
  if (known != job_of_pod_.end() && known->second != key) {
    // Its label has been changed.
    const std::string before = known->second;
    ErasePod(pod.Key(), before);
  }
  Work& work = Mark(key);
  job_of_pod_[pod.Key()] = key;
  Observed(work, "pod " + pod.name);
  if (work.job && pod.owner_uid == work.job->uid) ForgetRefusal(work, "pod " + pod.name);
  if (pod.extra) work.growth_refusal.clear();
  work.pods.insert_or_assign(pod.name, std::move(pod));
}

void JobOperator::OnPodGone(const std::string& key) {
  const auto known = job_of_pod_.find(key);
  if (known == job_of_pod_.end()) return;
  const std::string job_key = known->second;
  ErasePod(key, job_key);
}

void JobOperator::ErasePod(const std::string& key, const std::string& job_key) {
  job_of_pod_.erase(key);
  Work& work = Mark(job_key);
  const std::string name = key.substr(key.find('/') + 1);
  const auto pod = work.pods.find(name);
  if (pod != work.pods.end()) {
    work.unconnected.erase(pod->second.uid);
    work.moved.erase(pod->second.uid);
    if (work.job && pod->second.owner_uid == work.job->uid) {
      uint32_t& life = work.lives[pod->second.index];
      life = std::max(life, pod->second.life + 1);
    }
    work.pods.erase(pod);
  }
  work.pending.erase("pod " + name);
  work.failures.erase("pod " + name);
  ForgetRefusal(work, "pod " + name);
  EraseIfEmpty(job_key);
}

void JobOperator::Observed(Work& work, const std::string& target) {
  const auto pending = work.pending.find(target);
  if (pending == work.pending.end()) return;
  pending->second.observed = true;
  if (pending->second.answered) work.pending.erase(pending);
}

void JobOperator::OnWorkload(Workload workload) {
  const std::string key = JobKeyOfWorkload(workload.namespace_name, workload.name);
  if (key.empty()) return;
  Work& work = Mark(key);
  Observed(work, "workload");
  if (work.job && workload.owner_uid == work.job->uid) ForgetRefusal(work, "workload");
  work.workload = std::move(workload);
}

void JobOperator::OnWorkloadGone(const std::string& workload_key) {
  const size_t slash = workload_key.find('/');
  if (slash == std::string::npos) return;
  const std::string key =
      JobKeyOfWorkload(workload_key.substr(0, slash), workload_key.substr(slash + 1));
  if (key.empty() || !jobs_.contains(key)) return;
  Work& work = Mark(key);
  work.workload.reset();
  work.pending.erase("workload");
  work.failures.erase("workload");
  ForgetRefusal(work, "workload");
  EraseIfEmpty(key);
}

void JobOperator::ChangeQueues(const std::function<void(QueueObjects&)>& change) {
  change(queues_);
  for (const auto& [key, work] : jobs_) {
    if (work.job && !work.job->local_queue.empty()) dirty_.insert(key);
  }
}

void JobOperator::OnTokenKeys(std::string keys) {
  if (keys == token_keys_) return;
  token_keys_ = std::move(keys);
  for (const auto& [key, work] : jobs_) dirty_.insert(key);
}

void JobOperator::OnReport(const std::string& job_key, const std::string& pod_uid,
                           ControllerReport report, Instant now) {
  const auto found = jobs_.find(job_key);
  if (found == jobs_.end()) return;
  // One that is ending, or has a successor, says nothing of the workers of the one that serves.
  const JobPod* serves = nullptr;
  for (const auto& [name, pod] : found->second.pods) {
    const bool live = pod.role == JobPodRole::kController && !pod.being_deleted && !pod.ended();
    const bool own = found->second.job && pod.owner_uid == found->second.job->uid;
    if (live && own && (serves == nullptr || pod.life > serves->life)) serves = &pod;
  }
  if (serves == nullptr || serves->uid != pod_uid) return;
  Work& work = Mark(job_key);
  work.report = std::move(report);
  work.reporter = pod_uid;
  work.reported_at = now;
}

// A job runs without its extra workers: why none is made is no reason to wait.
void JobOperator::TakeRefusal(Work& work, const JobAction& action, const std::string& why) {
  const auto* create = std::get_if<CreateJobPod>(&action);
  if (create != nullptr && create->object["metadata"]["labels"].contains(kExtraLabel)) {
    work.growth_refusal = why;
    return;
  }
  work.refusal = why;
  work.refused = TargetOf(action);
}

void JobOperator::OnReply(const JobAction& action, ActionResult result, const std::string& why,
                          Instant now) {
  if (std::holds_alternative<RecordEvent>(action)) return;
  std::string key = JobKeyOf(action);
  if (key.empty()) {
    // Of a pod: its job is in the action's pod, or it is known by the pod.
    if (const auto* create = std::get_if<CreateJobPod>(&action)) {
      key = create->pod.namespace_name + "/" +
            create->object["metadata"]["labels"][std::string(kJobLabel)].get<std::string>();
    } else {
      const PodName& pod = std::holds_alternative<DeleteJobPod>(action)
                               ? std::get<DeleteJobPod>(action).pod
                               : std::get<PatchJobPod>(action).pod;
      const auto known = job_of_pod_.find(pod.Key());
      if (known == job_of_pod_.end()) return;
      key = known->second;
    }
  }
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return;
  Work& work = Mark(key);
  const std::string target = TargetOf(action);
  const auto pending = work.pending.find(target);
  if (pending == work.pending.end()) return;
  if (result == ActionResult::kRefused) {
    TakeRefusal(work, action, why);
    pending->second.answered = true;
    pending->second.until = now + Backoff(work.failures[target]++);
    pending->second.unsure_until = now + kUnobserved;
    return;
  }
  work.failures.erase(target);
  ForgetRefusal(work, target);
  // A pod of that name which is not among the job's: somebody else's, or one not observed yet.
  if (result == ActionResult::kExists) TakeRefusal(work, action, why);
  const bool settled = result == ActionResult::kDone || result == ActionResult::kConflict;
  if (pending->second.observed && settled) {
    work.pending.erase(pending);
  } else {
    pending->second.answered = true;
    pending->second.until = now + kUnobserved;
    pending->second.unsure_until = pending->second.until;
  }
}

std::vector<JobAction> JobOperator::Advance(Instant now, Instant wall) {
  std::vector<JobAction> actions;
  while (const auto key = wakes_.Take(now)) dirty_.insert(*key);
  const std::set<std::string> dirty = std::move(dirty_);
  dirty_.clear();
  for (const std::string& key : dirty) LookAt(key, now, wall, actions);
  return actions;
}

std::optional<Instant> JobOperator::NextDeadline() const { return wakes_.Next(); }

void JobOperator::LookAt(const std::string& key, Instant now, Instant wall,
                         std::vector<JobAction>& actions) {
  const auto found = jobs_.find(key);
  if (found == jobs_.end() || !found->second.job) return;
  Work& work = found->second;
  std::erase_if(work.pending,
                [&](const auto& each) { return each.second.answered && each.second.until <= now; });
  const LonghaulJob& asked = *work.job;
  Result<std::string> file = JobFileOf(asked);
  const Status usable = file.ok() ? CheckPodTemplate(asked) : file.status();
  const bool own = work.workload && work.workload->owner_uid == asked.uid;
  const QueueDecision queue = DecideQueue(asked, own ? &*work.workload : nullptr, queues_,
                                          settings_.pods, WishOf(asked, usable), wall);
  std::optional<LonghaulJob> smaller;
  if (queue.runs && queue.workers < asked.desired) {
    smaller = WithWorkers(asked, queue.workers);
    file = JobFileOf(*smaller);
  }
  const std::string job_file = file.ok() ? *file : "";
  const std::string template_hash = TemplateHash(asked);
  // In a queue of Kueue it has quota for those that were admitted.
  const uint32_t most = !asked.local_queue.empty() ? queue.workers : asked.maximum;
  Look look{work,          smaller ? *smaller : asked,
            queue,         job_file,
            template_hash, most,
            now,           wall,
            actions,       std::nullopt};
  Plan(look, usable);
  for (const auto& [target, pending] : work.pending) {
    if (pending.answered) look.AgainAt(pending.until);
  }
  wakes_.Set(key, look.again);
}

std::vector<JobOperator::Controller> JobOperator::Controllers() const {
  std::vector<Controller> controllers;
  for (const auto& [key, work] : jobs_) {
    if (!work.job) continue;
    for (const auto& [name, pod] : work.pods) {
      const bool answers = pod.role == JobPodRole::kController && pod.running && !pod.ip.empty() &&
                           !pod.authority.empty() && pod.owner_uid == work.job->uid;
      if (answers) controllers.push_back({key, work.job->uid, pod.uid, pod.ip, pod.authority});
    }
  }
  return controllers;
}

bool JobOperator::Act(Look& look, JobAction action) {
  if (!std::holds_alternative<RecordEvent>(action)) {
    const auto [at, added] = look.work.pending.try_emplace(TargetOf(action));
    if (!added) return false;
  }
  look.actions.push_back(std::move(action));
  return true;
}

bool JobOperator::Delete(Look& look, const JobPod& pod) {
  if (pod.being_deleted) return false;
  return Act(look, DeleteJobPod{{pod.namespace_name, pod.name, pod.uid}});
}

std::vector<const JobPod*> JobOperator::PodsOf(const Look& look, JobPodRole role) const {
  std::vector<const JobPod*> pods;
  for (const auto& [name, pod] : look.work.pods) {
    if (pod.role == role && pod.owner_uid == look.job.uid) pods.push_back(&pod);
  }
  return pods;
}

Duration JobOperator::Backoff(int failures) const {
  const Duration delay = settings_.first_retry * (1 << std::min(failures, kMostDoublings));
  return std::min(delay, settings_.longest_retry);
}

}  // namespace longhaul::engines::kubernetes
