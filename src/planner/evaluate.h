// The calculator: predicts time and memory of one step of a training on a cluster, for each layout.
//
// Built once for a model, a cluster and a software stack; then called for any number of layouts.
// From the bottom up: operators (spec/model/operators.h) on the GPU's matrix (time/device_matrix.h)
// with their collectives (time/collective_cost.h) make the cost of a layer (time/layer_cost.h),
// cached by its inputs; layers make stages, stages the pipeline (time/schedule.h); data-parallel
// traffic, optimizer and host work make the step. Symmetric ranks are merged: one pipeline
// represents the machine.
//
// Not thread-safe: use one evaluator per thread. Leaves out legality (spec::CheckTraining), gaps in
// the question (planner/case.h) and error bands (error_band.h).
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "planner/evaluation.h"
#include "planner/memory/memory_model.h"
#include "planner/recompute_runs.h"
#include "planner/time/layer_cost.h"
#include "planner/time/schedule.h"

namespace longhaul::planner {

class Evaluator {
 public:
  // `software` names the stack; its switches are read from each training.
  Evaluator(const spec::Model& model, const spec::DeviceCluster& cluster,
            const spec::Software& software);
  // With the caller's own constants, as `calibrate` measures them.
  Evaluator(const spec::Model& model, const spec::DeviceCluster& cluster,
            const DeviceMatrix& matrix, const Links& links, const SoftwareStack& stack);
  Evaluator(Evaluator&&) = default;

  // Requires a training that spec::CheckTraining accepts; framework and release are ignored.
  Evaluation Evaluate(const spec::Training& training);
  // The same, into `out`, whose vectors keep their capacity: no allocation once they have grown.
  void Evaluate(const spec::Training& training, Evaluation& out);

  // The step's parts without memory and FLOPs; valid until the next call.
  const StepBreakdown& Parts(const spec::Training& training);
  // The step time alone.
  Seconds StepSeconds(const spec::Training& training);

  // The time that recompute of the training (not by stage) adds to the backward of one layer of one
  // micro-batch: seconds, and the host's seconds to launch it.
  struct Recomputed {
    double device_s = 0;
    double launch_s = 0;
  };
  Recomputed RecomputedOf(const spec::Training& training, uint32_t layer);
  // For every stage of the last evaluated training and one micro-batch: the whole forward time, and
  // the time of backward on the device and for its launches.
  struct StageSeconds {
    double forward_s = 0;
    Recomputed backward;
  };
  void Stages(const spec::Training& training, std::vector<StageSeconds>& stages) const;
  // The share by which a second of additional stage time lengthens the stage under ZeRO 3 for
  // certain: the rest may hide the transfer of weights.
  double least_lengthening() const { return 1 - stack_.shard_hidden; }
  // Micro-batches per step of that training.
  uint32_t micro_batches() const { return scratch_.micro_batches; }

  const spec::Model& model() const { return model_; }
  const spec::DeviceCluster& cluster() const { return cluster_; }

 private:
  struct KeyHash {
    size_t operator()(const LayerKey& key) const;
  };
  struct Stage {
    StageTime time;
    LayerCost sum;  // of its layers, embedding and loss
    uint32_t layers = 0;
    double shard_exposed_s = 0;    // FSDP's, of one micro-batch
    double backward_device_s = 0;  // before the host's launches
    bool as_before = false;        // equal to the previous stage
  };
  // The costs of a stage's parts under one recompute: a layer of each kind that the model has
  // (KindIndex), embedding and loss.
  struct Costs {
    std::array<const LayerCost*, 4> layers{};
    const LayerCost* embedding = nullptr;
    const LayerCost* loss = nullptr;
    uint64_t round = 0;  // round_ when they were looked up
  };
  // Layers of a stage under one recompute, by kind.
  struct LayerShare {
    const Costs* costs = nullptr;
    std::array<uint32_t, 4> layers{};

    friend bool operator==(const LayerShare&, const LayerShare&) = default;
  };
  struct DataTraffic {
    double exposed_s = 0;
    double tax_s = 0;
  };

  const LayerCost& Cost(const LayerKey& key);
  const Costs& CostsOf(spec::RecomputeKind recompute, const spec::RecomputeModules& modules);
  void Share(const Costs& costs, uint32_t first, uint32_t count);
  void ShareStage(const spec::Training& training, uint32_t stage);
  void BuildStages(const spec::Training& training, double micro_batch);
  void FoldStages();
  double ReduceBytes(const spec::Training& training) const;
  double ReplicaSeconds(const spec::Training& training, double parameters, Group shard) const;
  void ShardStages(const spec::Training& training);
  DataTraffic DataSeconds(const spec::Training& training, const Stage& stage) const;
  double OwnedParameters(const spec::Training& training, const Stage& stage) const;
  double OffloadSeconds(const spec::Training& training, const Stage& stage,
                        double micro_batches) const;
  double OptimizerSeconds(const spec::Training& training, const Stage& stage) const;
  // Fills step and breakdown; does not change the rest of `out`.
  void Time(const spec::Training& training, Evaluation& out);
  void CountFlops(const spec::Training& training, Evaluation& out) const;

  spec::Model model_;
  spec::DeviceCluster cluster_;
  DeviceMatrix matrix_;
  Links links_;
  SoftwareStack stack_;
  MemoryModel memory_;
  // Layers before index i of each kind: experts x window.
  std::vector<uint32_t> layers_before_[4];
  size_t only_kind_ = 4;  // of all layers; 4 where they differ
  std::unordered_map<LayerKey, LayerCost, KeyHash> costs_;
  // Entries of costs_ for key_, by kind of recompute and its modules; an old round has an old key.
  std::array<Costs, size_t{4} << 6> known_;
  LayerKey key_;
  uint64_t round_ = 0;
  std::vector<Stage> stages_;
  std::vector<StageTime> times_;
  std::vector<LayerShare> shares_;  // of the current stage
  std::vector<LayerShare> shares_before_;
  std::vector<uint32_t> chunks_;
  std::vector<uint32_t> chunk_begins_;
  RecomputeRuns runs_;
  Evaluation scratch_;
};

}  // namespace longhaul::planner
