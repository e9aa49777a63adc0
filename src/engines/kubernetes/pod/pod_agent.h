// `longhaul kube agent`: the agent of one worker pod of a LonghaulJob.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul::engines::kubernetes {

struct PodAgentOptions {
  std::string pod_directory;    // of the files controller and authority.crt
  std::string token_file;       // of the pod's service account, for the job's audience
  std::string state_directory;  // stays when the container starts again
  std::string node;             // the pod's name
  std::string address;          // of the pod
  uint32_t slots = 1;
};

// Runs until a signal comes. When the files name another controller, it exits with 1, so that the
// kubelet starts it again, with the new one.
int PodAgentMain(const PodAgentOptions& options);

}  // namespace longhaul::engines::kubernetes
