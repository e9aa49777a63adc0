#include "engines/kubernetes/jobs/worker_growth.h"

namespace longhaul::engines::kubernetes {

GrowthDecision DecideGrowth(const LonghaulJob& job, uint32_t most, const ServingWorkers& workers) {
  const auto is_placed = [&](uint32_t index) {
    const auto worker = workers.find(index);
    return worker != workers.end() && !worker->second->node.empty();
  };
  GrowthDecision decision;
  for (uint32_t index = 0; index < job.desired; ++index) {
    if (!is_placed(index)) return decision;
  }
  for (uint32_t first = job.desired; first + job.step <= most; first += job.step) {
    bool placed = true;
    for (uint32_t index = first; index < first + job.step; ++index) {
      placed = placed && is_placed(index);
      const auto worker = workers.find(index);
      if (worker == workers.end()) {
        decision.missing.push_back(index);
      } else if (worker->second->gated) {
        decision.gated.push_back(worker->second);
      }
    }
    if (!decision.missing.empty()) decision.gated.clear();
    if (!placed) return decision;
  }
  return decision;
}

}  // namespace longhaul::engines::kubernetes
