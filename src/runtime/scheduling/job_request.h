// The scheduler's request for a job: the job's sections `scheduling` and `resources` and its number
// of nodes, checked against the controller's configuration file and the cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
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
  const std::vector<std::string>& levels;  // of the declared cluster, the smallest first, if any
  uint32_t slots_per_accelerator = 1;
  // The cluster whose device models, labels and taints the job may name; null: no node has joined
  // and none is declared.
  const spec::Topology* topology = nullptr;
  bool declared = false;  // by a cluster file
  // The reservations whose nodes the job may have. Null: no reservation is in its way.
  const std::set<std::string>* tolerated = nullptr;
};

// Returns kInvalidArgument for a queue, a priority, a keyword, a level, a device model or a label
// that does not exist, and kFailedPrecondition for more workers on a node than any node can run.
Result<scheduler::JobRequest> ReadRequest(const proto::Job& job, const RequestContext& context);

// The reverse, for a request that the scheduler proposes: sets the job's size, topology and device
// models. `cluster` has the names of the levels; null: none is known.
void WriteRequest(const scheduler::JobRequest& request, const spec::Topology* cluster,
                  proto::Job& job);

// The greatest number of nodes that the job may have now, and its speeds up to that number.
scheduler::JobScaled ScaleOf(const proto::Job& job);

// Returns kFailedPrecondition when the cluster cannot give the share or the device memory that the
// job asks for. `topology` null: no node has joined and none is declared.
Status CheckDevices(const proto::Job& job, const spec::Topology* topology,
                    uint32_t slots_per_accelerator);

}  // namespace longhaul::runtime::scheduling
