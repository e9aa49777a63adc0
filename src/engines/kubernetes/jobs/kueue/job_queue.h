// A job that has a queue of Kueue: when it may have pods, and what Kueue is told of it.
//
// The label kueue.x-k8s.io/queue-name of a LonghaulJob names its queue. The operator makes a
// Workload for it, which asks for the quota of all its pods, and the job has pods only while Kueue
// has admitted the Workload. Quota is given back after the last pod is gone, never before: in one
// write after an eviction, by the condition Finished at the end, and by deleting the Workload when
// the job is suspended, is deleted, or asks for something else.
//
// Pure: equal calls give equal decisions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "engines/kubernetes/jobs/job_actions.h"
#include "engines/kubernetes/jobs/kueue/queue_objects.h"
#include "engines/kubernetes/jobs/kueue/workload.h"
#include "engines/kubernetes/jobs/longhaul_job.h"
#include "engines/kubernetes/jobs/pod_templates.h"

namespace longhaul::engines::kubernetes {

// The sets of pods of a Workload.
inline constexpr std::string_view kControllerSet = "controller";
inline constexpr std::string_view kWorkerSet = "workers";

std::string WorkloadName(const LonghaulJob& job);
// The key of the job whose Workload has this namespace and name; empty if it can be no job's.
std::string JobKeyOfWorkload(const std::string& namespace_name, const std::string& name);

// What the job is to do, apart from its queue.
enum class JobWish : uint8_t { kRun, kStop, kFinish };

struct QueueDecision {
  // The job may have pods.
  bool runs = false;
  uint32_t workers = 0;  // how many
  PodPlacement controller;
  PodPlacement worker;
  std::vector<NodeLabels> nodes;  // of each worker, by its index, where Kueue has chosen them
  // Where the worker with this index may be.
  PodPlacement WorkerAt(uint32_t index) const;

  // It may not: why, as one word and in words.
  std::string reason;
  std::string message;
  // What is done at once, and what is done when none of its pods exists any more.
  std::optional<JobAction> now;
  std::optional<JobAction> when_stopped;
};

// `workload` is the job's own one, or null. `wall` is the present time of day.
QueueDecision DecideQueue(const LonghaulJob& job, const Workload* workload,
                          const QueueObjects& objects, const PodSettings& settings, JobWish wish,
                          Instant wall);

// The job with fewer workers, as many as its queue has admitted.
LonghaulJob WithWorkers(LonghaulJob job, uint32_t workers);

}  // namespace longhaul::engines::kubernetes
