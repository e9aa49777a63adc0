#include "service/controller/view/rank_accelerators.h"

#include <cstdint>

namespace longhaul::service {

double AcceleratorsOfRank(const proto::JobStatus& status) {
  double accelerators = 0;
  for (const proto::NodeDevices& node : status.devices()) accelerators += node.devices_size();
  const double ranks =
      static_cast<double>(status.devices_size()) * status.job().processes_per_node();
  if (ranks <= 0) return 0;
  const uint32_t share_milli = status.job().scheduling().share_milli();
  return accelerators / ranks * (share_milli == 0 ? 1.0 : share_milli / 1000.0);
}

}  // namespace longhaul::service
