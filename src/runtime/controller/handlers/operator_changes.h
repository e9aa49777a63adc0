// What operators change so that a job can start: which job goes first, which one leaves, limits,
// other sizes, nodes and links that may be used again.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class OperatorChanges {
 public:
  explicit OperatorChanges(ControllerContext& context) : context_(context) {}

  // Whether what is asked for can be done; the first reason if not.
  Status Check(const proto::ChangesAsked& asked) const;
  // Changes that Check refuses do nothing.
  void OnChangesAsked(const proto::ChangesAsked& asked);
  bool CanChangeSize(const JobId& job) const;
  // In the controller's words what the scheduler would be told.
  Controller::Remedy RemedyOf(const JobId& job, const std::vector<scheduler::Event>& fix) const;

 private:
  Status CheckChange(const proto::Change& change) const;
  Status CheckJobChange(const JobRecord& job, const proto::Job& spec) const;
  void Make(const proto::Change& change, const std::string& reason);
  void ChangeJob(JobRecord& job, const proto::Job& spec);
  const JobTable& jobs() const { return context_.jobs; }

  ControllerContext& context_;
};

}  // namespace longhaul::runtime::controller
