#include "runtime/controller/handlers/health/device_errors.h"

#include <string>
#include <vector>

#include "runtime/controller/handlers/fault_handler.h"
#include "runtime/controller/placement.h"

namespace longhaul::runtime::controller {
namespace {

constexpr size_t kMostText = 300;  // bytes of what a driver says

std::string Describe(const std::string& node, const proto::DeviceError& error) {
  std::string what =
      "device " + error.device() + " of " + node + " reports Xid " + std::to_string(error.code());
  if (!error.text().empty()) what += ": " + error.text().substr(0, kMostText);
  return what;
}

}  // namespace

void DeviceErrors::OnDeviceError(const proto::Event& event) {
  const proto::DeviceError& error = event.device_error();
  const NodeId id(event.node());
  const Node* node = context_.nodes.Find(id);
  if (node == nullptr) return;
  const std::string what = Describe(event.node(), error);
  std::vector<std::string> failed;
  for (auto& [name, job] : context_.jobs.all()) {
    if (!job.live() || job.closing() || !job.group.contains(event.node())) continue;
    if (IsFaultOf(job, *node, event, what)) failed.push_back(name);
  }
  if (!error.needs_reset()) return;
  context_.scheduler.Fault(event.node(), what, context_.now);
  if (!node->cordoned) {
    context_.nodes.Cordon(id, true, /*drain=*/false);
    context_.AddNodeNotification(id);
  }
  context_.UpdateScheduler(id);
  for (const std::string& name : failed) {
    JobRecord& job = context_.jobs.at(name);
    faults_.LeaveFaultyNodes(job, {{id, what, /*keeps_work=*/false}});
    faults_.TryDecide(job);
  }
  placement_.Schedule();
}

bool DeviceErrors::IsFaultOf(JobRecord& job, const Node& node, const proto::Event& event,
                             const std::string& what) {
  if (!event.device_error().needs_reset()) {
    context_.AddMessage(job.id(), proto::MessageNotification::WARNING, what);
    return false;
  }
  // Of several jobs it is not known which one has the device.
  if (node.used_milli > job.accelerators_milli()) {
    context_.AddMessage(job.id(), proto::MessageNotification::WARNING,
                        what +
                            "; the device must be reset, and other jobs run on this node, so "
                            "the job continues until its workers fail");
    return false;
  }
  faults_.NoteFault(job, {proto::FaultClass::kDevice, what, event.node(), -1,
                          InstantFromNanoseconds(event.at_ns()), /*certain=*/true});
  return job.faults.undecided();
}

}  // namespace longhaul::runtime::controller
