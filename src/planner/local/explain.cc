#include "planner/local/explain.h"

#include <cmath>

#include "base/text.h"
#include "base/time.h"

namespace longhaul::planner::local {

namespace {

std::string Percent(double share) { return std::to_string(std::lround(100 * share)) + " %"; }

// As a duration ("229 ms") where it can be one.
std::string Time(Seconds seconds) {
  constexpr Seconds kLongest(1e9);
  return seconds < kLongest ? ToString(DurationFromSeconds(seconds.count())) : ToString(seconds);
}

// "21.8 GFLOP".
std::string Work(Flops flops) {
  const std::string rate = ToString(flops / Seconds(1));
  return rate.substr(0, rate.find("/s"));
}

// "4 workers (2 on each of 2 nodes)".
std::string Shape(uint32_t nodes, uint32_t processes) {
  if (nodes == 1) return Counted(processes, "worker") + " on one node";
  return Counted(uint64_t{nodes} * processes, "worker") + " (" + std::to_string(processes) +
         " on each of " + Counted(nodes, "node") + ")";
}

// ", a model in 2 tensor parts x 2 stages"; empty where each worker has the whole.
std::string Parts(uint32_t tensor, uint32_t pipeline) {
  if (tensor == 1 && pipeline == 1) return "";
  return ", a model in " + Counted(tensor, "tensor part") + " x " + Counted(pipeline, "stage");
}

// What was weighed against the choice: the fastest other layout.
std::string RunnerUp(const std::vector<Alternative>& rows) {
  const Alternative* chosen = nullptr;
  const Alternative* other = nullptr;
  size_t too_large = 0;
  for (const Alternative& row : rows) {
    const bool fits = row.verdict != "does not fit in memory";
    too_large += fits ? 0 : 1;
    if (row.chosen) chosen = &row;
    if (!row.chosen && fits && other == nullptr) other = &row;
  }
  std::string text;
  if (other == nullptr) {
    text = "No other layout of what the job leaves open would run. ";
  } else {
    const double ratio = other->step.total().count() / chosen->step.total().count();
    text = "The runner-up, " + Shape(other->nodes, other->processes_per_node) +
           Parts(other->layout.tensor, other->layout.pipeline) + " with micro-batches of " +
           std::to_string(other->micro_batch) + ", is predicted at " + Time(other->step.total()) +
           ", " + other->verdict;
    if (ratio < 1) {
      text += ", which is within the model's error of " + Percent(kTie) + ". As good as equal, " +
              (chosen->nodes > other->nodes
                   ? "the layout on more nodes wins: a lost node takes less of the job with it"
                   : "the layout that uses more of the cluster's slots wins");
    } else if (ratio <= 1 + kTie) {
      text += ": equal within the model's error, but it uses less of the cluster";
    }
    text += ". ";
  }
  if (too_large > 0) text += Counted(too_large, "layout") + " would not fit in memory. ";
  return text;
}

std::string Limit(const LocalPlan& plan, const MachineFacts& facts) {
  const double communication = plan.step.all_reduce.count() / plan.step.total().count();
  if (communication > 0.5) {
    return "The all-reduce of gradients is the limit: " + Percent(communication) + " of a step. ";
  }
  std::string text =
      "Compute is the limit: the all-reduce is " + Percent(communication) + " of a step";
  if (plan.ranks() > facts.cores) {
    text += ", and " + Counted(plan.ranks(), "worker") + " share " + Counted(facts.cores, "core") +
            ", so that more of them would not be faster";
  } else if (plan.ranks() < facts.cores) {
    text += ", with " + Counted(facts.cores - plan.ranks(), "core") +
            " without work, for want of slots or of a batch that divides";
  }
  return text + ". ";
}

std::string Basis(const LocalPlan& plan, const MachineFacts& facts) {
  return "A worker takes about " + ToString(plan.memory.total()) + " (" +
         ToString(plan.memory.activations) + " of it while it computes, " +
         ToString(plan.memory.snapshot_slots) + " for snapshots in memory), all of them " +
         ToString(MachineMemory(plan.memory, plan.ranks())) + " of " + ToString(facts.memory) +
         ", and has one thread of products. The machine's figures are " + facts.basis + ".";
}

// "The job file fixes nodes and micro_batch. "; empty when nothing is fixed.
std::string Fixed(const spec::ResourceSpec& fixed) {
  std::string keys;
  const auto add = [&](bool given, const char* key) {
    if (given) keys += (keys.empty() ? "" : " and ") + std::string(key);
  };
  add(fixed.nodes.has_value(), "nodes");
  add(fixed.processes_per_node.has_value(), "processes_per_node");
  add(fixed.micro_batch.has_value(), "micro_batch");
  return keys.empty() ? "" : "The job fixes " + keys + ". ";
}

}  // namespace

std::string Compared(double seconds, double base) {
  const double ratio = seconds / base;
  const int64_t percent = std::lround(100 * std::fabs(ratio - 1));
  if (percent == 0) return "as fast";
  return std::to_string(percent) + " % " + (ratio < 1 ? "faster" : "slower");
}

std::string ExplainCommand(const LocalPlan& plan, const spec::ResourceSpec& fixed) {
  return Fixed(fixed) + Shape(plan.nodes, plan.processes_per_node) +
         (fixed.nodes && fixed.processes_per_node
              ? ", as asked for."
              : ": what the job leaves open takes all slots. What a command computes is not known, "
                "so nothing is predicted.");
}

std::string ExplainPlan(const LocalPlan& plan, const std::vector<Alternative>& rows,
                        const spec::JobSpec& job, const MachineFacts& facts) {
  const std::string model =
      "The model has " + WithThousands(plan.parameters) + " parameters, and a step of " +
      Counted(job.train.global_batch, "sequence") + " is " + Work(plan.step_flops) + ". ";
  const std::string choice = Shape(plan.nodes, plan.processes_per_node) +
                             Parts(plan.tensor_parallel, plan.pipeline_parallel) + ", each with " +
                             Counted(plan.micro_batches, "micro-batch") + " of " +
                             Counted(plan.micro_batch, "sequence") +
                             " a step: " + Time(plan.step.total()) + " a step predicted. ";
  return choice + Fixed(job.resources) + model + RunnerUp(rows) + Limit(plan, facts) +
         Basis(plan, facts);
}

}  // namespace longhaul::planner::local
