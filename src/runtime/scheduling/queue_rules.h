// What the queues of the controller's file allow to a job and to its user.
//
// A rule of a queue applies to the jobs of the queues below it too. Leaves out the rules that
// depend on what else runs: the scheduler applies those when it starts jobs.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"
#include "scheduler/job.h"
#include "spec/queue/controller_file.h"

namespace longhaul::runtime::scheduling {

// The job's queue and those above it, the nearest first; empty when it is in none. They are part of
// `configuration`.
std::vector<const spec::QueueSpec*> QueuesOf(const spec::ControllerSpec& configuration,
                                             const proto::Job& job);

// The queue whose max_run_time ends the job first; null: none.
const spec::QueueSpec* RunTimeQueueOf(const spec::ControllerSpec& configuration,
                                      const proto::Job& job);

// Returns kPermissionDenied when a queue does not admit the job's user, and kFailedPrecondition
// when the job expects to run for longer than its queue lets it.
Status CheckRights(const spec::ControllerSpec& configuration, const proto::Job& job);

// Returns kNotFound when there is no queue `name` or no quota of a device model that the limit
// names, kInvalidArgument when an amount is no limit, and kFailedPrecondition when the limit is
// below the guarantee of the queue.
Status CheckNewLimit(const spec::ControllerSpec& configuration, const std::string& name,
                     const proto::Amounts& limit);

// Puts the limit that an operator has set in the place of the queue's own. Models that it does not
// name keep theirs.
void ApplyLimit(const proto::Amounts& limit, spec::QueueSpec& queue);

// Returns kFailedPrecondition when the job alone exceeds a limit of its queue or of one above: the
// queue's own, or that of each of its users. `queues` has the limits that are in force. Limits of
// device models are left to the scheduler, which knows the models that could serve the job.
Status CheckLimits(const std::vector<spec::QueueSpec>& queues,
                   const scheduler::JobRequest& request);

}  // namespace longhaul::runtime::scheduling
