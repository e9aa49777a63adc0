// For tests: the operator of LonghaulJobs against the double of the API server, in virtual time.
//
// The plant around them is simulated_plant.h. Requests and replies take time and get lost or are
// refused, watches break and expire, nodes are lost, pods are deleted, containers end, reports
// stop, users change their jobs, and the operator is replaced by another one that has nothing but
// what the API reports; what the old one had sent may still arrive.
//
// What is checked of each action, against what the operator has observed:
//   - a controller pod is made only where none is live, and where one is ending only after
//     controller_patience;
//   - a worker pod is made only for an index below `desired` without a live pod, and only while a
//     live controller exists; no pod is made for a job that is suspended, finished or deleted;
//   - an extra worker is made only up to `maximum`, by whole groups, when all before it have nodes;
//   - gates are removed only when all workers, or all of the extra ones of a group, exist;
//   - no pod is made for a job in a queue that is not admitted, and quota is given back only after
//     the last pod;
//   - pods of others are not touched; a finalizer is removed only after the last pod.
// Of each status that the API stores: one phase is true, a condition that stays keeps its time,
// and a finished job stays what it is. At rest (see CheckRest): the pods are those that the job
// should have, and the status is the truth.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "engines/kubernetes/double/api_double.h"
#include "engines/kubernetes/jobs/job_operator.h"
#include "engines/kubernetes/jobs/simulation/simulated_kueue.h"
#include "engines/kubernetes/jobs/simulation/simulated_plant.h"
#include "engines/kubernetes/jobs/simulation/simulated_watch.h"

namespace longhaul::engines::kubernetes {

struct JobFaults {
  bool lost_messages = false;  // requests and replies
  bool refusals = false;       // 409, 429, 500, 403
  bool watches = false;        // breaks and expired versions
  bool nodes = false;          // vanish with their pods, or lose their kubelet
  bool deletions = false;      // pods are deleted by users
  bool deaths = false;         // of containers and pods
  bool silence = false;        // reports stop
  bool operators = false;      // the operator is replaced
  bool evictions = false;      // Kueue evicts and deactivates jobs that are in a queue
  bool room = false;           // nodes are added, and extra workers are evicted
  bool users = false;          // jobs are suspended, resumed, scaled, changed and deleted
};

struct SimulatedJob {
  std::string name;
  uint32_t desired = 2;
  uint32_t minimum = 2;
  uint32_t maximum = 2;
  uint32_t step = 1;
  double seconds = 100;  // of training
  bool fails = false;
  bool in_queue = false;
};

class SimulatedJobs {
 public:
  SimulatedJobs(uint64_t seed, const JobFaults& faults);
  ~SimulatedJobs();

  void AddNodes(int nodes) { plant_.AddNodes(nodes); }
  void AddJob(const SimulatedJob& job);
  // How many pods Kueue admits at a time.
  void SetQuota(uint32_t pods) { kueue_.SetQuota(pods); }
  // A pod of somebody else with this name and the labels of a job's worker; it stays until the
  // faults end.
  void AddForeignPod(const std::string& name, const std::string& job, bool labelled);
  // Faults happen until then.
  void FaultsUntil(Duration after);

  // Runs for so long, or until `done`. Returns what does not hold.
  Status Run(
      Duration time, const std::function<bool()>& done = [] { return false; });

  // No job is left that has not ended.
  bool AllFinished() const;
  // How many extra workers have had a node.
  int grown() const { return plant_.grown(); }
  int faults() const { return happened_ + plant_.hurt(); }
  ApiDouble& api() { return api_; }
  const std::string& log() const { return log_; }

 private:
  // A state that must not last, by what it is.
  using Lasting = std::map<std::string, Instant>;

  bool Fault(bool kind, uint64_t one_in);
  void Log(const std::string& line);
  void Break(const std::string& what);
  void Changed();

  void ReplaceOperator();
  std::unique_ptr<SimulatedWatch> Watch(const Resource& resource, const std::string& selector,
                                        std::function<void(const Change&)> take);
  void TakeJob(const Change& change);
  void TakePod(const Change& change);
  void TakeWorkload(const Change& change);
  void Advance();
  void Carry(const JobAction& action);
  void Execute(const JobAction& action, uint64_t leader);
  void Reply(const JobAction& action, const ApiResponse& response, bool answered);
  void Poll();

  void Disturb();
  void DisturbJob();
  void EndFaults();
  void Tick();

  void CheckAction(const JobAction& action);
  void CheckCreate(const CreateJobPod& create);
  void CheckExtra(const LonghaulJob& job, const JobPod& pod, const JobJson& object);
  // The live workers that the operator has seen, by index.
  std::map<uint32_t, const JobPod*> LiveWorkers(const LonghaulJob& job) const;
  // How many workers the job has, as far as the operator sees.
  uint32_t WorkersOf(const LonghaulJob& job) const;
  void CheckPatch(const PatchJob& patch);
  void CheckRelease(const JobAction& action);
  void CheckTouched(const PodName& pod);
  void CheckGates(const PodName& pod);
  void CheckStored(const JobAction& action, const Json& before);
  void CheckRest();
  void CheckRestOf(const Json& object, Lasting& now);
  const JobPod* LiveController(const std::string& job_uid) const;

  const Json* Job(const std::string& name) const {
    return api_.Find("longhauljobs", ObjectName{"ns", name});
  }
  ApiResponse PatchJobObject(const std::string& name, const Json& patch);

  Random rng_;
  const JobFaults faults_;
  JobOperatorSettings settings_;
  SimulatedAgenda agenda_;
  ApiDouble api_;
  SimulatedPlant plant_;
  SimulatedKueue kueue_;
  Instant faults_end_;
  Instant silent_until_{};
  std::string keys_ = R"({"keys":[]})";
  uint64_t leader_ = 0;
  std::unique_ptr<JobOperator> operator_;
  std::vector<std::unique_ptr<SimulatedWatch>> watches_;
  std::optional<Instant> advance_at_;
  int turns_ = 0;  // in a row after which another one is due at once

  // What the present operator has observed, and what it has sent without an answer.
  std::map<std::string, LonghaulJob> seen_jobs_;
  std::map<std::string, JobPod> seen_pods_;
  std::map<std::string, Workload> seen_workloads_;  // by the job's uid
  std::map<std::string, Instant> ending_since_;     // by the pod's uid
  // Creations, the job's uid by the pod's name, until they are answered or the pod is seen.
  std::map<std::string, std::string> unanswered_;

  std::map<std::string, SimulatedJob> jobs_;
  std::set<std::string> job_uids_;  // all that ever were
  std::vector<std::string> foreign_;
  Lasting lasting_;
  int happened_ = 0;
  Status broken_;
  std::string log_;
};

}  // namespace longhaul::engines::kubernetes
