// The operator of LonghaulJobs: makes the pods of each job, replaces those that are lost, and
// writes how the job does into its status.
//
// Everything is decided from what the API reports, and from what the controller of a job reports of
// it: after a restart nothing else is needed. For each job:
//   1. a finalizer, so that a deleted job ends with a last checkpoint;
//   2. the controller pod, which publishes its authority (pod_templates.h);
//   3. one worker pod for each node, with the controller's address. Their gates are removed when
//      all of them exist: the scheduler then places them together;
//      and, while the job trains, more of them up to `max` (worker_growth.h);
//   4. a pod that was deleted, has failed, or whose agent is not connected to the controller for a
//      minute, is replaced by one of the next life;
//   5. at the end, which the controller pod publishes, the workers are deleted, and the controller
//      pod stays for its log.
// A suspended or deleted job loses its controller first, which takes a last checkpoint, then its
// workers. So does a job that waits in a queue of Kueue (kueue/job_queue.h).
//
// Pure: time is an argument, there is no input or output, and equal calls give equal actions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "engines/kubernetes/jobs/job_actions.h"
#include "engines/kubernetes/jobs/job_pod.h"
#include "engines/kubernetes/jobs/job_status.h"
#include "engines/kubernetes/jobs/kueue/job_queue.h"
#include "engines/kubernetes/jobs/kueue/queue_objects.h"
#include "engines/kubernetes/jobs/kueue/workload.h"
#include "engines/kubernetes/jobs/longhaul_job.h"
#include "engines/kubernetes/jobs/pod_templates.h"
#include "engines/kubernetes/jobs/worker_growth.h"
#include "engines/kubernetes/scheduling/due_times.h"

namespace longhaul::engines::kubernetes {

struct JobOperatorSettings {
  PodSettings pods;
  // A worker whose agent is not connected for so long is replaced. An agent that lost its
  // controller's address needs time to see the new one: kubelets update files about once a minute.
  Duration lost_patience = std::chrono::seconds(60);
  Duration moved_patience = std::chrono::minutes(4);
  // A new controller waits so long for the end of the one before.
  Duration controller_patience = std::chrono::minutes(4);
  Duration first_retry = std::chrono::seconds(1);  // after a refusal; then doubled
  Duration longest_retry = std::chrono::minutes(5);
  // A change of the number of goodput alone is written after this time.
  Duration status_period = std::chrono::seconds(15);
  // A report is true for so long.
  Duration report_life = std::chrono::seconds(30);
};

// kConflict: the object has changed since it was observed.
enum class ActionResult : uint8_t { kDone, kExists, kGone, kConflict, kRefused };

class JobOperator {
 public:
  explicit JobOperator(JobOperatorSettings settings) : settings_(std::move(settings)) {}

  // --- What is observed.
  void OnJob(LonghaulJob job);
  // A job that cannot be read: nothing is done for it.
  void OnJobGone(const std::string& key);
  void OnPod(JobPod pod);
  void OnPodGone(const std::string& key);
  void OnWorkload(Workload workload);
  void OnWorkloadGone(const std::string& key);
  // Changes what is known of Kueue's set-up.
  void ChangeQueues(const std::function<void(QueueObjects&)>& change);
  // The keys with which the API server signs tokens, as JSON. Without them no job starts.
  void OnTokenKeys(std::string keys);
  // What the controller in this pod reports.
  void OnReport(const std::string& job_key, const std::string& pod_uid, ControllerReport report,
                Instant now);
  void OnReply(const JobAction& action, ActionResult result, const std::string& why, Instant now);

  // Decides. Call it first when all jobs and pods that exist have been reported, and then after
  // each change and at NextDeadline. `wall`: the time of day, for the status.
  std::vector<JobAction> Advance(Instant now, Instant wall);
  std::optional<Instant> NextDeadline() const;

  // A controller that can be asked.
  struct Controller {
    std::string job_key;
    std::string job_uid;
    std::string pod_uid;
    std::string ip;
    std::string authority;
  };
  std::vector<Controller> Controllers() const;
  size_t jobs() const { return jobs_.size(); }

 private:
  // An action that was sent, or has been answered a moment ago.
  struct Pending {
    bool answered = false;
    bool observed = false;  // the object has changed since it was sent
    Instant until;          // answered: nothing is sent again before
    Instant unsure_until;   // answered: an object may have been made and not be observed yet
  };
  // The creations of a worker's pods, the newest last.
  struct Creations {
    Instant last;
    int in_a_row = 0;  // each soon after the one before
  };
  struct Work {
    std::optional<LonghaulJob> job;
    std::map<std::string, JobPod> pods;  // by name; of any job with this name
    std::optional<Workload> workload;    // of any job with this name
    std::optional<ControllerReport> report;
    std::string reporter;  // uid of the controller pod
    Instant reported_at;
    std::map<std::string, Instant> unconnected;  // since when, by the worker pod's uid
    std::map<uint32_t, Creations> made;          // by the worker's index
    std::map<uint32_t, uint32_t> lives;          // after those that are gone, by the worker's index
    std::map<std::string, Instant> moved;        // to another controller, by the worker's uid
    std::optional<Instant> without_controller;   // since when the one before is ending
    std::optional<Instant> silent_since;         // without a report of the controller
    std::optional<Instant> status_at;            // of the last write
    std::map<std::string, Pending> pending;      // by target
    std::map<std::string, int> failures;         // by target
    std::string refusal;                         // why an action was refused; empty: none
    std::string refused;                         // its target
    std::string growth_refusal;                  // why no extra worker was made; empty: none
  };
  // One look at a job: what it is found to be, and what is done.
  struct Look {
    Work& work;
    const LonghaulJob& job;
    const QueueDecision& queue;
    const std::string& job_file;
    const std::string& template_hash;
    uint32_t most;  // workers, extra ones included
    Instant now;
    Instant wall;
    std::vector<JobAction>& actions;
    std::optional<Instant> again;  // when something is due without a change

    void AgainAt(Instant at) { again = again ? std::min(*again, at) : at; }
  };

  Work& Mark(const std::string& key);
  void ForgetRefusal(Work& work, const std::string& target);
  static void Forget(Work& work);
  static void TakeRefusal(Work& work, const JobAction& action, const std::string& why);
  void EraseIfEmpty(const std::string& key);
  static void Observed(Work& work, const std::string& target);
  void ErasePod(const std::string& pod_key, const std::string& job_key);
  void LookAt(const std::string& key, Instant now, Instant wall, std::vector<JobAction>& actions);
  void Plan(Look& look, const Status& usable);
  void PlanFinished(Look& look);
  void PlanDeletion(Look& look);
  JobFacts PlanStop(Look& look, JobFacts facts);
  JobFacts PlanRun(Look& look, JobFacts facts);
  // Returns the controller that serves the job, or null while there is none.
  const JobPod* PlanController(Look& look, JobFacts& facts);
  // Whether it was made from what the job says now.
  static bool IsCurrent(const Look& look, const JobPod& pod);
  void MakeController(Look& look, JobFacts& facts);
  void PlanWorkers(Look& look, const JobPod& controller, JobFacts& facts);
  // `before`: the pods with this index. Makes none while one of them is live.
  void MakeWorker(Look& look, uint32_t index, const std::vector<const JobPod*>& before,
                  const ControllerPlace& place);
  void RemoveGate(Look& look, const JobPod& worker);
  void PlanWorker(Look& look, const JobPod& worker, const JobPod& controller);
  bool IsLost(Look& look, const JobPod& worker, const JobPod& controller);
  // Whether the controller has reported within report_life.
  bool IsReported(const Look& look, const JobPod& controller) const;
  bool IsConnected(const Look& look, const JobPod& worker) const;
  // Whether the controller has reported that the workers train.
  bool IsTraining(const Look& look, const JobPod& controller) const;
  void Judge(Look& look, const JobPod& controller, const ServingWorkers& workers,
             JobFacts& facts) const;
  // Whether what is stored is kept, because no report could have come yet.
  bool KeepsRunning(Look& look, const JobPod& controller, JobFacts& facts) const;
  void WriteStatus(Look& look, const JobFacts& facts);
  bool StopPods(Look& look);
  bool StopAndRelease(Look& look);
  bool ControllersEnd(Look& look, const std::vector<const JobPod*>& controllers);
  bool MayHaveMore(Look& look) const;

  std::vector<const JobPod*> PodsOf(const Look& look, JobPodRole role) const;
  // Sends the action, unless one for its target is under way.
  bool Act(Look& look, JobAction action);
  bool Delete(Look& look, const JobPod& pod);
  Duration Backoff(int failures) const;

  JobOperatorSettings settings_;
  std::string token_keys_;
  QueueObjects queues_;
  std::map<std::string, Work> jobs_;  // by "namespace/name"
  std::map<std::string, std::string> job_of_pod_;
  std::set<std::string> dirty_;
  DueTimes wakes_;
};

}  // namespace longhaul::engines::kubernetes
