// `longhaul kube run-job`: runs one LonghaulJob, in its controller pod, from its start to its end.
//
// It is `longhaul run` whose agents come by themselves, from the worker pods. The controller is a
// child of this process and listens at the pod's address with the certificate that the init
// container has made (job_authority.h). It accepts agents and the operator by the tokens of their
// service accounts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul::engines::kubernetes {

// By what the controller recognises its callers (service_account_identity.h).
struct CallerOptions {
  std::string keys_file;
  std::string audience;
  std::string namespace_name;
  std::string worker_prefix;
  std::string operator_subject;
};
// As words of a command line, for the controller's process.
std::vector<std::string> WordsOf(const CallerOptions& options);

struct RunJobOptions {
  std::string pod_directory;    // of the files job.yaml and token-keys.json
  std::string state_directory;  // has tls
  std::string run_directory;
  std::string address;   // of the pod
  std::string publish;   // the file of the termination message
  uint32_t nodes = 1;    // at most
  uint32_t awaited = 1;  // before the job is submitted
  uint32_t slots = 1;
  CallerOptions callers;
};

// Returns 0 when the job has ended, well or not: the outcome is in the termination message, as JSON
// {"outcome": "succeeded" or "failed", "message", "restarts", "goodput", "steps"}. Every other exit
// code has the kubelet start it again. It then uses the controller's log in the run directory
// again, and the workers have not noticed. A pod elsewhere does the same where it finds the log.
int RunJobMain(const RunJobOptions& options);

}  // namespace longhaul::engines::kubernetes
