// What drivers report about the devices of nodes, as agents read it in the kernel's log.
//
// A device that must be reset is a fault of the jobs that run there, at once: their workers could
// only wait for it until their limit. The node is cordoned, and an idle one takes its place.
// Other errors are reported, and change nothing. Leaves out which errors demand a reset
// (service/agent/devices/device_error.h).
#pragma once

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class FaultHandler;
class Placement;

class DeviceErrors {
 public:
  DeviceErrors(ControllerContext& context, FaultHandler& faults, Placement& placement)
      : context_(context), faults_(faults), placement_(placement) {}

  void OnDeviceError(const proto::Event& event);

 private:
  // Returns whether the error is a fault of the job that awaits a decision.
  bool IsFaultOf(JobRecord& job, const Node& node, const proto::Event& event,
                 const std::string& what);

  ControllerContext& context_;
  FaultHandler& faults_;
  Placement& placement_;
};

}  // namespace longhaul::runtime::controller
