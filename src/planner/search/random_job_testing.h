// Small random jobs for the tests of the search: spaces small enough to visit every point.
#pragma once

#include <cstdint>
#include <functional>
#include <random>

#include "planner/search/space.h"

namespace longhaul::planner::search {

// Fixes axes in a random order until the space has at most 60,000 points.
inline void KeepSmall(PlanRequest& job, std::mt19937_64& rng) {
  const auto below = [&rng](uint64_t n) { return static_cast<uint32_t>(rng() % n); };
  for (uint32_t axis = below(5); CountPoints(job) > 60'000; axis = (axis + 1) % 5) {
    Fixed& fixed = job.fixed;
    if (axis == 0 && !fixed.offload) {
      fixed.offload = spec::Offload::kNone;
    } else if (axis == 1 && !fixed.zero_stage) {
      fixed.zero_stage = below(4);
    } else if (axis == 2 && !fixed.schedule) {
      constexpr spec::PipelineSchedule kAll[] = {
          spec::PipelineSchedule::kOneForwardOneBackward, spec::PipelineSchedule::kZeroBubbleH1,
          spec::PipelineSchedule::kZeroBubbleV, spec::PipelineSchedule::kDualPipe};
      fixed.schedule = kAll[below(4)];
    } else if (axis == 3) {
      job.base.batch.global = std::max(4u, job.base.batch.global / 2);
    } else {
      job.cluster.devices = std::max(4u, job.cluster.devices / 2);
      job.model.layers = std::max(2u, job.model.layers - 2);
    }
  }
}

// A few numbers of GPUs, weighed by time or money; some with a deadline that falls among
// their steps.
inline void AddGpus(PlanRequest& job, std::mt19937_64& rng) {
  const bool money = rng() % 2 == 0;
  const double longest = 0.01 * static_cast<double>(1 + rng() % 20);
  const bool late = rng() % 3 == 0;
  const uint32_t most = std::max(8u, job.cluster.devices);
  for (uint32_t devices = std::max(4u, most / 4); devices <= most; devices += devices / 2) {
    GpuCount gpus{devices};
    if (money) gpus.weight = devices;
    if (late) gpus.longest_step_s = longest;
    job.gpus.push_back(gpus);
  }
}

// A model of a few layers on 4 to 32 GPUs whose memory some layouts exceed.
inline PlanRequest RandomJob(uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto below = [&rng](uint64_t n) { return static_cast<uint32_t>(rng() % n); };
  PlanRequest job;
  spec::Model& model = job.model;
  model.layers = 2 + below(9);
  model.heads = 4u << below(3);
  model.kv_heads = model.heads >> below(3);
  model.head_dim = 64u << below(2);
  model.hidden = model.heads * model.head_dim;
  model.ffn_hidden = model.hidden * 4;
  model.vocabulary = 32'000;
  model.sequence_length = 1024u << below(3);
  model.gated_ffn = below(2) == 0;
  model.tied_embeddings = below(3) == 0;
  if (below(3) == 0) {
    model.experts = spec::Experts{
        .count = 4u << below(2), .top_k = 2, .ffn_hidden = model.hidden, .balanced = below(2) == 0};
  }
  constexpr const char* kDevices[] = {"a100-80gb-sxm", "h100-sxm", "b200-sxm", "l40s"};
  job.cluster.device = *spec::FindDevice(kDevices[below(4)]);
  job.cluster.devices = 4u << below(4);
  job.cluster.devices_per_node = 4;
  job.cluster.island = 4;
  job.cluster.network.per_device = BytesPerSecond(below(2) == 0 ? 50e9 : 12.5e9);
  job.cluster.network.nodes_per_leaf = 2;
  job.cluster.network.leaf_oversubscription = 1 + below(3);
  // Between 2 GiB and 64.
  job.cluster.device.memory = Bytes(int64_t{1} << (31 + below(6)));
  job.base.batch.global = 8u << below(3);
  job.base.software.framework = "megatron-core";
  job.base.software.overlap_tensor = below(2) == 0;
  job.base.software.flash_attention = below(4) != 0;
  job.reach = Reach::kEverything;
  // Leaves points for other axes in every second job.
  if (model.experts && seed % 2 == 1) job.fixed.overlap_expert = false;
  KeepSmall(job, rng);
  if (seed % 2 == 1) AddGpus(job, rng);
  return job;
}

// Calls `see` for every point of the space.
inline void ForEachPoint(const PlanRequest& job,
                         const std::function<void(const Shape&, const spec::Training&)>& see) {
  for (const Shape& shape : Shapes(job)) {
    spec::Training training = job.base;
    training.layout = {};
    Apply(shape, training);
    for (const uint32_t micro : MicroBatches(job, shape)) {
      training.batch.micro = micro;
      for (const Stages& stages : StageChoices(job, shape, micro)) {
        Apply(stages, training);
        for (const States& states : StateChoices(job, shape)) {
          Apply(states, training);
          for (const spec::Recompute& recompute : RecomputeChoices(job, shape)) {
            training.recompute = recompute;
            for (const spec::PlacementOrder& order : Orders(job, shape)) {
              training.layout.order = order;
              see(shape, training);
            }
          }
        }
      }
    }
  }
}

}  // namespace longhaul::planner::search
