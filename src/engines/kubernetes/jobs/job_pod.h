// A pod of a LonghaulJob, as the operator reads it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engines/kubernetes/jobs/longhaul_job.h"

namespace longhaul::engines::kubernetes {

// The labels of the pods of a job.
inline constexpr std::string_view kJobLabel = "longhaul.dev/job";      // the job's name
inline constexpr std::string_view kRoleLabel = "longhaul.dev/role";    // controller or worker
inline constexpr std::string_view kIndexLabel = "longhaul.dev/index";  // of a worker: 0, 1, ...
inline constexpr std::string_view kLifeLabel = "longhaul.dev/life";    // 0, and 1 for its successor
// Of a worker beyond `desired` (worker_growth.h): the number of its group.
inline constexpr std::string_view kExtraLabel = "longhaul.dev/extra";

// The annotations that a pod sees as files (docs/longhauljob.md).
inline constexpr std::string_view kJobAnnotation = "longhaul.dev/job-file";
inline constexpr std::string_view kKeysAnnotation = "longhaul.dev/token-keys";
inline constexpr std::string_view kControllerAnnotation = "longhaul.dev/controller";
inline constexpr std::string_view kAuthorityAnnotation = "longhaul.dev/authority";

// What the pod was made from (TemplateHash).
inline constexpr std::string_view kTemplateAnnotation = "longhaul.dev/template";

inline constexpr std::string_view kGangGate = "longhaul.dev/gang";
inline constexpr std::string_view kControllerContainer = "controller";
inline constexpr std::string_view kAuthorityContainer = "authority";
inline constexpr std::string_view kWorkerContainer = "worker";

enum class JobPodRole : uint8_t { kController, kWorker };

struct JobPod {
  std::string namespace_name;
  std::string name;
  std::string uid;
  std::string job;        // its name
  std::string owner_uid;  // of the object that controls the pod
  JobPodRole role = JobPodRole::kWorker;
  uint32_t index = 0;
  uint32_t life = 0;
  bool extra = false;  // has kExtraLabel
  bool being_deleted = false;

  bool gated = false;  // has our gate
  std::string node;    // empty: not bound
  std::string ip;
  bool running = false;    // its container runs
  bool succeeded = false;  // the phase
  bool failed = false;     // the phase
  int64_t restarts = 0;    // of its container
  std::string trouble;     // why it is not bound, does not run, or has failed; may be empty

  std::string template_hash;  // kTemplateAnnotation; empty: of an operator without it

  std::string authority;   // a controller: the certificate that its init container published
  std::string outcome;     // a controller: what its container published at its end
  std::string job_file;    // a controller: its annotation
  std::string token_keys;  // a controller: its annotation
  std::string controller;  // a worker: its annotations
  std::string worker_authority;

  std::string Key() const { return namespace_name + "/" + name; }
  bool ended() const { return succeeded || failed; }
};

// Reads a pod that has kJobLabel. kInvalidArgument, with the field's name, for one that cannot be a
// pod of a job.
Result<JobPod> ReadJobPod(const JobJson& object);

}  // namespace longhaul::engines::kubernetes
