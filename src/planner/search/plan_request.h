// The input of a search: a model, a cluster, a batch, and the choices that the user has fixed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/evaluate.h"
#include "planner/flags/flags.h"
#include "planner/search/gpus.h"
#include "spec/model/training.h"

namespace longhaul::planner::search {

// Fixed choices; an absent one is searched.
struct Fixed {
  std::optional<uint32_t> devices{};
  std::optional<uint32_t> tensor{};
  std::optional<uint32_t> pipeline{};
  std::optional<uint32_t> virtual_pipeline{};
  std::optional<uint32_t> context{};
  std::optional<uint32_t> expert{};
  std::optional<uint32_t> expert_tensor{};
  std::optional<uint32_t> data{};
  std::optional<uint32_t> micro_batch{};
  std::optional<uint32_t> zero_stage{};
  std::optional<uint32_t> shard_group{};
  std::optional<bool> sequence_parallel{};
  std::optional<bool> overlap_expert{};
  std::optional<spec::PipelineSchedule> schedule{};
  std::optional<spec::ContextKind> context_kind{};
  std::optional<spec::Recompute> recompute{};
  std::vector<spec::RecomputeRun> stage_recompute{};  // for kByStage; empty: the best that fits
  std::optional<spec::Offload> offload{};
  std::optional<spec::PlacementOrder> order{};
  std::optional<std::vector<uint32_t>> layers_per_stage{};
};

// The layouts that may be proposed: those that one framework, or any framework, has options for, or
// all legal ones.
enum class Reach { kOneFramework, kSomeFramework, kEverything };

// A calibrated machine in place of shipped figures (planner/local/device_constants.h).
struct Machine {
  DeviceMatrix matrix;
  Links links;
  SoftwareStack stack;
};

struct PlanRequest {
  spec::Model model;
  spec::DeviceCluster cluster;
  // Global batch, precision and software; its layout is ignored.
  spec::Training base;
  Fixed fixed;
  Reach reach = Reach::kSomeFramework;
  flags::Framework framework = flags::Framework::kMegatron;  // of kOneFramework
  // Whether each stage may have its own recompute; frameworks use one choice for all, and Reach
  // ignores this (NearestUniform in plan.h finds a layout that they support).
  bool recompute_by_stage = true;
  double headroom = 0;  // share of the GPU's memory to leave free, 0 to 1
  // The GPU counts to search, with their weights (SetGpus); empty: the cluster's.
  std::vector<GpuCount> gpus{};
  Objective objective = Objective::kTime;  // from the arguments of SetGpus
  // Of the whole run, from the arguments of SetGpus; the counts' longest steps follow from them.
  std::optional<double> deadline_days{};
  std::optional<double> budget_dollars{};
  std::optional<Machine> machine{};
};

// The evaluator of this job's layouts, on its cluster or one that differs in a figure.
Evaluator EvaluatorOf(const PlanRequest& job, const spec::DeviceCluster& cluster,
                      const spec::Software& software);

}  // namespace longhaul::planner::search
