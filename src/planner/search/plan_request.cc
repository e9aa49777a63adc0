#include "planner/search/plan_request.h"

namespace longhaul::planner::search {

Evaluator EvaluatorOf(const PlanRequest& job, const spec::DeviceCluster& cluster,
                      const spec::Software& software) {
  if (!job.machine) return Evaluator(job.model, cluster, software);
  SoftwareStack stack = job.machine->stack;
  stack.compute_factor *= software.compute_factor;
  return Evaluator(job.model, cluster, job.machine->matrix, job.machine->links, stack);
}

}  // namespace longhaul::planner::search
