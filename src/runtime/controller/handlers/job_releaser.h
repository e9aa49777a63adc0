// Offers jobs to the scheduler once the jobs that they depend on have ended and their array has
// room, and ends jobs that can never start.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class JobCloser;

// By id, the number of elements of an array; 0: not an array.
using EarlierJobs = std::map<std::string, uint32_t>;

class JobReleaser {
 public:
  JobReleaser(ControllerContext& context, JobCloser& closer) : context_(context), closer_(closer) {}

  // Returns why a job can't depend on those that it names: there is no such job, or it could never
  // start. `earlier`: the jobs of the same submission before it.
  Status CheckDependencies(const proto::Job& job, const EarlierJobs& earlier) const;
  // Returns why the dependencies of a job or array can't be dropped.
  Status CheckRelease(const std::string& id) const;
  void Release(const std::string& id);  // requires that CheckRelease returned OK

  // Advances all units that events since the last call concern.
  void Settle();

 private:
  JobOutcome OutcomeOf(const std::string& id) const;
  void Advance(ReleaseUnit& unit);
  // Removes the dependencies that are satisfied. Returns why the unit can never start, if so.
  std::string TakeSatisfied(ReleaseUnit& unit) const;
  void EndHeld(ReleaseUnit& unit, const std::string& reason);
  void Offer(ReleaseUnit& unit);

  ControllerContext& context_;
  JobCloser& closer_;
};

}  // namespace longhaul::runtime::controller
