#include "runtime/scheduling/elastic.h"

#include <numeric>
#include <string>

#include "spec/job/job.h"

namespace longhaul::runtime {
namespace {

uint32_t TensorOf(const proto::Job& job) { return std::max(1u, job.tensor()); }
uint32_t PipelineOf(const proto::Job& job) { return std::max(1u, job.pipeline()); }
uint32_t SliceOf(const proto::Job& job) { return std::max(1u, job.scheduling().slice_nodes()); }

}  // namespace

NodeBounds BoundsAsSubmitted(const proto::Job& job) {
  NodeBounds bounds;
  bounds.minimum = job.minimum_nodes() > 0 ? job.minimum_nodes() : job.nodes();
  bounds.maximum = job.maximum_nodes() > 0 ? job.maximum_nodes() : job.nodes();
  if (bounds.elastic()) {
    bounds.step = std::lcm(
        spec::NodeStep(std::max(1u, job.processes_per_node()), TensorOf(job), PipelineOf(job)),
        SliceOf(job));
  }
  return bounds;
}

NodeBounds BoundsOf(const proto::Job& job) {
  NodeBounds bounds = BoundsAsSubmitted(job);
  if (job.node_limit() > 0) bounds.maximum = std::min(bounds.maximum, job.node_limit());
  return bounds;
}

Status CheckNodeLimit(const proto::Job& job, uint32_t nodes) {
  const NodeBounds bounds = BoundsAsSubmitted(job);
  if (!bounds.elastic()) {
    return FailedPrecondition("job " + job.id() + " has a fixed number of nodes, " +
                              std::to_string(job.nodes()) +
                              ": only a job with minimum_nodes or maximum_nodes is scaled");
  }
  if (bounds.allows(nodes)) return {};
  const std::string steps =
      bounds.step > 1 ? " in multiples of " + std::to_string(bounds.step) : std::string();
  return InvalidArgument("job " + job.id() + " cannot have " + std::to_string(nodes) +
                         " nodes: its bounds are " + std::to_string(bounds.minimum) + " to " +
                         std::to_string(bounds.maximum) + steps);
}

Status CheckBounds(const proto::Job& job) {
  const NodeBounds bounds = BoundsAsSubmitted(job);
  if (bounds.minimum > job.nodes() || bounds.maximum < job.nodes()) {
    return InvalidArgument("job " + job.id() + " wants " + std::to_string(job.nodes()) +
                           " nodes, outside its own bounds of " + std::to_string(bounds.minimum) +
                           " to " + std::to_string(bounds.maximum));
  }
  for (const uint32_t nodes : {bounds.minimum, job.nodes(), bounds.maximum}) {
    if (nodes % SliceOf(job) == 0) continue;
    return InvalidArgument("job " + job.id() + ": topology: slices of " +
                           std::to_string(SliceOf(job)) + " nodes do not divide its " +
                           std::to_string(nodes) + " nodes");
  }
  if (!bounds.elastic()) return {};
  const auto batch =
      static_cast<uint32_t>(std::min<uint64_t>(job.data().global_batch(), UINT32_MAX));
  const std::string why =
      spec::WhyNoBounds(bounds.minimum, job.nodes(), bounds.maximum, job.processes_per_node(),
                        TensorOf(job), PipelineOf(job), batch);
  return why.empty() ? Status() : InvalidArgument("job " + job.id() + ": " + why);
}

bool NodesAreAlike(const proto::Job& job) {
  if (job.snapshot().replicated()) return true;
  if (!job.workload().built_in() || job.tensor() == 0) return false;  // nothing is known of them
  return PipelineOf(job) == 1 && job.processes_per_node() % TensorOf(job) == 0;
}

}  // namespace longhaul::runtime
