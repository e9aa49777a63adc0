// A device file as the constants of the general calculator (planner/evaluate.h): a core is a
// device, the machine is a cluster of one node.
//
// For `plan` on a calibrated machine. Less precise than LocalCost, which has a figure for each
// size: here a core has one rate for matmuls, one for attention, one for streams. In f32 alone:
// other precisions have the same rates.
#pragma once

#include "planner/local/device_file.h"
#include "planner/time/collective_cost.h"
#include "planner/time/device_matrix.h"
#include "planner/time/software_stack.h"
#include "spec/cluster/device.h"

namespace longhaul::planner {

struct DeviceConstants {
  spec::DeviceCluster cluster;
  DeviceMatrix matrix;
  Links links;
  SoftwareStack stack;
};

// Requires a file that ParseDeviceFile accepts. The input of Evaluator's second constructor.
DeviceConstants ConstantsOf(const DeviceFile& file);

}  // namespace longhaul::planner
