// What the scheduler is asked for a job: the job's section `scheduling` and its number of nodes,
// read against what the controller's file declares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/job.pb.h"
#include "scheduler/scheduler.h"
#include "spec/queue/controller_file.h"

namespace longhaul::runtime::scheduling {

constexpr size_t kSlots = 0;  // the index of the counted resource that workers use

struct RequestContext {
  const spec::ControllerSpec& configuration;
  const std::vector<std::string>& levels;  // of the declared cluster, the smallest first; or none
  uint32_t slots_per_accelerator = 1;
};

// kInvalidArgument for a queue, a priority, a word or a level that does not exist;
// kFailedPrecondition for more workers on a node than any node can take.
Result<scheduler::JobRequest> ReadRequest(const proto::Job& job, const RequestContext& context);

}  // namespace longhaul::runtime::scheduling
