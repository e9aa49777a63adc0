// Changes by an operator so that a job can start: which job goes first, which one gives way,
// limits, other sizes, and nodes and links that may be used again. Also keeps nodes for some jobs
// for a period: reservations.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class JobReleaser;

class OperatorChanges {
 public:
  OperatorChanges(ControllerContext& context, JobReleaser& releaser)
      : context_(context), releaser_(releaser) {}

  // Returns whether the changes can be made, or the first reason why not.
  Status Check(const proto::ChangesAsked& asked) const;
  // Changes that Check refuses do nothing.
  void OnChangesAsked(const proto::ChangesAsked& asked);
  // Begins and ends the reservations whose time has come, before anything else of a step.
  void AdvanceReservations();
  bool CanChangeSize(const JobId& job) const;
  // Translates a fix that the scheduler proposes into changes for the controller.
  Controller::Remedy RemedyOf(const JobId& job, const std::vector<scheduler::Event>& fix) const;

 private:
  Status CheckChange(const proto::Change& change) const;
  Status CheckJobChange(const JobRecord& job, const proto::Job& spec) const;
  Status CheckScale(const proto::Change::Scale& scale) const;
  void Make(const proto::Change& change, const std::string& reason);
  void Reserve(const proto::NodeReservation& reservation);
  void CancelReservation(const std::string& name, const std::string& because);
  void WatchReservations();
  void Scale(const proto::Change::Scale& scale, const std::string& because);
  void ChangeJob(JobRecord& job, const proto::Job& spec);
  const JobTable& jobs() const { return context_.jobs; }

  ControllerContext& context_;
  JobReleaser& releaser_;
};

}  // namespace longhaul::runtime::controller
