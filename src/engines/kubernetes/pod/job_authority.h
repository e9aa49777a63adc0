// `longhaul kube authority`: makes the authority and the certificate of a job's controller.
//
// It runs as an init container of the controller pod. What it writes to the container's termination
// message, the authority's certificate, is published by the kubelet in the pod's status: so it
// reaches the operator, and from there the workers, over the API server alone, and this pod needs
// no right to use it.
#pragma once

#include <string>

#include "base/status.h"

namespace longhaul::engines::kubernetes {

struct JobAuthorityOptions {
  std::string state_directory;  // the files are in its folder tls
  std::string address;          // of the pod
  std::string publish;          // the file of the termination message
};

// An authority that exists is kept, so that a pod whose containers start again keeps its workers.
Status MakeJobAuthority(const JobAuthorityOptions& options);

}  // namespace longhaul::engines::kubernetes
