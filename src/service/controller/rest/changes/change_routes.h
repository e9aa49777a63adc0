// The routes of the REST API for changes that the scheduler takes, and for what-if questions, which
// try such changes on a copy. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "service/controller/core_loop.h"
#include "service/controller/rest/api_response.h"
#include "service/controller/rest/changes/change_request.h"
#include "service/controller/rest/changes/what_if_request.h"
#include "service/controller/submission/submission_request.h"

namespace longhaul::service {

// Makes the jobs of a request: parses, plans, prepares data. May take seconds.
using PrepareJob = std::function<Result<proto::JobsSubmitted>(const SubmissionRequest&)>;

class ChangeRoutes {
 public:
  // Requires that both outlive this.
  ChangeRoutes(CoreLoop& loop, const PrepareJob& prepare) : loop_(loop), prepare_(prepare) {}

  // All changes or none. Each one needs a role of its own.
  ApiResponse Change(const ApiRequest& request) const;
  // One question is answered at a time; a few may wait.
  ApiResponse WhatIf(const ApiRequest& request) const;

 private:
  Result<proto::Change> ChangeFrom(const ChangeRequest& request) const;
  Result<proto::Job> ChangedJob(const ChangeRequest& request) const;
  // Returns the changes with the ids of their jobs, and with the job that each submits.
  Result<std::vector<runtime::scheduling::WhatIfChange>> ChangesOf(
      const WhatIfRequest& asked) const;

  CoreLoop& loop_;
  const PrepareJob& prepare_;
  mutable std::mutex what_if_;             // held by the question that is being answered
  mutable std::atomic<int> what_ifs_ = 0;  // this one, and those that wait
};

}  // namespace longhaul::service
