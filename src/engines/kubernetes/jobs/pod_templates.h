// The pods that the operator makes for a LonghaulJob.
//
// A job has one controller pod and one worker pod for each of its nodes. No pod has access to the
// API, and no Secret is used (docs/longhauljob.md says how they recognise each other). What a pod
// has to know later is an annotation, which a volume of the pod shows as a file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engines/kubernetes/jobs/job_pod.h"
#include "engines/kubernetes/jobs/longhaul_job.h"

namespace longhaul::engines::kubernetes {

// Where the volumes are in the containers.
inline constexpr std::string_view kPodFolder = "/var/run/longhaul/pod";
inline constexpr std::string_view kStateFolder = "/var/run/longhaul/state";
inline constexpr std::string_view kTokenFolder = "/var/run/longhaul/token";
inline constexpr std::string_view kProgramFolder = "/var/run/longhaul/program";
// Files in kPodFolder.
inline constexpr std::string_view kJobFile = "job.yaml";
inline constexpr std::string_view kKeysFile = "token-keys.json";
inline constexpr std::string_view kControllerFile = "controller";
inline constexpr std::string_view kAuthorityFile = "authority.crt";

// At which ports of its pod a job's controller listens.
inline constexpr uint16_t kRestPort = 8700;
inline constexpr uint16_t kAgentPort = 8701;

// Of workers beyond `desired`: a class of low priority that preempts nothing (operator.yaml).
inline constexpr std::string_view kExtraPriorityClass = "longhaul-extra-worker";

// A job's name is at most so long, so that the names of its pods are names of nodes.
inline constexpr size_t kMostJobName = 40;

struct PodSettings {
  std::string image;                      // of Longhaul
  std::string program = "/opt/longhaul";  // its folder in the image: bin is in it
  std::string scheduler_name = "longhaul";
  // Whose tokens the controller of a job accepts for reading its state.
  std::string operator_subject = "system:serviceaccount:longhaul:longhaul-operator";
};

// Where a pod may be, beside what its template says.
struct PodPlacement {
  std::map<std::string, std::string> labels;  // of its node
  JobJson tolerations = JobJson::array();
};

// What the workers have to know of the controller pod.
struct ControllerPlace {
  std::string address;    // "10.1.2.3:8701"
  std::string authority;  // PEM
  friend bool operator==(const ControllerPlace&, const ControllerPlace&) = default;
};
// Of a controller pod that has an address and has published its authority; else both are empty.
ControllerPlace PlaceOf(const JobPod& controller);

// The audience of the tokens that a job's controller accepts.
std::string AudienceOf(const LonghaulJob& job);
std::string ControllerPodName(const LonghaulJob& job, uint32_t life);
std::string WorkerPodName(const LonghaulJob& job, uint32_t index, uint32_t life);

// What the pods of the job are made from, as a number: the template, the devices and the run
// directory. Pods with another one are replaced.
std::string TemplateHash(const LonghaulJob& job);

// Why no pods can be made for the job, with the field; ok if they can.
Status CheckPodTemplate(const LonghaulJob& job);

// Requires CheckPodTemplate. `job_file`: JobFileOf(job); `token_keys`: the keys with which the API
// server signs tokens, as JSON.
JobJson ControllerPod(const LonghaulJob& job, const PodSettings& settings, uint32_t life,
                      const std::string& job_file, const std::string& token_keys,
                      const PodPlacement& placement = {});
JobJson WorkerPod(const LonghaulJob& job, const PodSettings& settings, uint32_t index,
                  uint32_t life, const ControllerPlace& controller,
                  const PodPlacement& placement = {});
// The entry for the job in the ownerReferences of what is made for it.
JobJson OwnerReference(const LonghaulJob& job);

}  // namespace longhaul::engines::kubernetes
