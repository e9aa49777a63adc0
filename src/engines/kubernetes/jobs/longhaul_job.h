// The resource LonghaulJob (docs/longhauljob.md) as the operator reads it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::engines::kubernetes {

using JobJson = nlohmann::ordered_json;

// The value of spec.managedBy that names this operator; the same as none.
inline constexpr std::string_view kOperatorName = "longhaul.dev/operator";
// The labels of a job that name its queue in Kueue, and its priority there.
inline constexpr std::string_view kQueueLabel = "kueue.x-k8s.io/queue-name";
inline constexpr std::string_view kQueuePriorityLabel = "kueue.x-k8s.io/priority-class";
// The finalizer of jobs: their pods are deleted, with a last checkpoint, before the job is gone.
inline constexpr std::string_view kJobFinalizer = "longhaul.dev/pods";

struct LonghaulJob {
  std::string namespace_name;
  std::string name;
  std::string uid;
  std::string version;  // resourceVersion
  int64_t generation = 0;
  bool being_deleted = false;
  std::vector<std::string> finalizers;
  std::string local_queue;     // kQueueLabel; empty: Kueue does not manage the job
  std::string queue_priority;  // kQueuePriorityLabel; may be empty

  std::string queue;
  bool suspend = false;
  std::string managed_by;
  uint32_t minimum = 1;  // worker pods
  uint32_t desired = 1;
  uint32_t maximum = 1;
  uint32_t step = 1;            // all three are multiples of it
  std::string device_resource;  // empty: the worker pods have no devices
  uint32_t devices_per_worker = 0;
  std::string run_directory;  // on storage that all pods mount; empty: none
  JobJson job;                // the job file, without what the fields above state
  JobJson pod_template;       // null: none

  JobJson status;  // as it is stored; null: none

  std::string Key() const { return namespace_name + "/" + name; }
  bool HasFinalizer() const;
};

// Reads an object of the API. kInvalidArgument, with the field's name, for one that the definition
// would have refused.
Result<LonghaulJob> ReadLonghaulJob(const JobJson& object);

// The job file of longhaul run, as JSON: spec.job with the name, the numbers of nodes and the
// number of workers of each. kInvalidArgument if spec.job contradicts the other fields.
Result<std::string> JobFileOf(const LonghaulJob& job);
// The number of workers of each node.
uint32_t SlotsOf(const LonghaulJob& job);

}  // namespace longhaul::engines::kubernetes
