// The texts of a scheduling configuration, read.
#pragma once

#include <optional>

#include "base/status.h"
#include "proto/events.pb.h"
#include "scheduler/policy.h"
#include "spec/cluster/topology.h"
#include "spec/queue/controller_file.h"

namespace longhaul::runtime::scheduling {

struct Configuration {
  spec::ControllerSpec file;
  std::optional<spec::ClusterDeclaration> cluster;  // if the controller's file names a cluster file
};

// Returns kInvalidArgument, with file, line and remedy, for texts that are no such files.
Result<Configuration> ReadConfiguration(const proto::SchedulingConfiguration& configuration);

// The scheduler's policy by the controller's file. `growing`: no cluster file declares the nodes.
scheduler::Policy PolicyOf(const spec::ControllerSpec& file, bool growing);

}  // namespace longhaul::runtime::scheduling
