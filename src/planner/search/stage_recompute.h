// Chooses the recompute of each pipeline stage: the least with which the stage fits.
//
// Early stages hold more micro-batches than late ones, so one choice for all recomputes too much on
// some stages. Here every stage has, for each module (norms, FFN, core attention, latent
// projections, experts or their activation) and for whole layers, a number of its first layers in
// which it is recomputed; these are nested, so that a stage is a few runs of layers. knapsack.h
// chooses exactly under the GPU's memory, with the memory model's own parts: states, saved tensors
// by chunk and micro-batches held, rebuilt tensors of one layer, the loss. A stage recomputes
// either experts or their activation, and not where activations are offloaded. Extra prediction
// layers keep everything.
//
// Before an exact choice, each stage has a bound: the fractional knapsack over all of its layers,
// which takes under a microsecond. A layout whose bounds are too slow, or that does not fit even
// so, gets no exact choice; and the exact choice considers only times below `enough`.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "planner/evaluate.h"
#include "planner/memory/memory_model.h"
#include "planner/search/knapsack.h"
#include "planner/search/plan_request.h"

namespace longhaul::planner::search {

// The modules whose recompute frees memory in this job, one by one.
std::vector<spec::RecomputeModules> SingleModules(const PlanRequest& job);

class RecomputeChooser {
 public:
  explicit RecomputeChooser(const PlanRequest& job);

  // Sets the training's recompute by stage: each stage's least time, by the evaluator's figures,
  // that keeps the GPU's memory at `limit` or below. Returns zero where it does; infinity where a
  // stage fits with no choice; a bound of the step without straggling nodes, at least `enough`,
  // where every choice takes as long. Evaluator and memory are of the job's model.
  double Choose(Evaluator& evaluator, MemoryModel& memory, int64_t limit, spec::Training& training,
                double enough);

  // The plans of stages that were evaluated so far.
  uint64_t effort() const { return effort_; }

 private:
  static constexpr size_t kKinds = 4;  // of layers: with experts or without, windowed or not

  // The cost and the freed bytes of one module (or the whole layer) in a layer of one kind.
  struct Worth {
    Evaluator::Recomputed time;
    double saved = 0;
  };
  struct Sums {
    std::vector<double> device_s, launch_s, bytes;
    double least_rate = 0;
  };
  struct Set {
    uint32_t bits = 0;     // of modules_
    bool largest = false;  // not part of another set
    bool experts = false;  // recomputes the experts
  };
  // The costs and freed bytes of layers, for one evaluator's last layout.
  struct Measured {
    const Evaluator* evaluator = nullptr;
    spec::Layout layout;
    spec::Batch batch;
    bool overlap_expert = false;
    std::vector<Worth> worths;                     // of each module and whole layers, by kind
    std::vector<double> live_dense, live_experts;  // of each set
    double live_full[2] = {0, 0};
    std::array<std::vector<FreedAtRate>, kKinds> hulls;
  };
  // How the step follows from its stages' times.
  struct StepRule {
    double rest_s = 0;         // of a step, beyond the compute of the slowest stage
    double micro_batches = 0;  // of a step
    // The share of a second of recompute that lengthens its stage for certain: below 1 where
    // sharded weights arrive meanwhile, or a rank works on two stages in turn.
    double share = 1;
  };
  struct Best {
    RecomputePlan plan;
    uint32_t full = 0;  // layers
    std::vector<size_t> items;
  };

  // Sets now_.
  void Find(Evaluator& evaluator, MemoryModel& memory, const spec::Training& bare);
  void Measure(Evaluator& evaluator, MemoryModel& memory, const spec::Training& bare);
  void AddHulls();  // of each kind of layer
  // Whether the training's overlap of the experts' exchange allows this recompute.
  bool Allows(const Set& set) const { return !(keeps_experts_ && set.experts); }
  StepRule RuleOf(Evaluator& evaluator);
  // The least device seconds of recompute with which the stage fits; infinite where it never does.
  double LeastOf(uint32_t stage, const StageRoom& room, double most);
  void SumLayers(const spec::Training& bare, uint32_t stage, const StageRoom& room);
  // Returns the time of its backward; infinite where it does not fit, or takes `enough_s` or more.
  double ChooseStage(uint32_t stage, const StageRoom& room, double most, RecomputeTime without,
                     double enough_s, std::vector<spec::RecomputeRun>& runs);
  void AddRuns(uint32_t stage, const Best& best, std::vector<spec::RecomputeRun>& runs) const;

  const spec::Model model_;
  std::vector<spec::RecomputeModules> modules_;
  const bool reach_limited_;     // to layouts that a framework has options for
  std::vector<uint32_t> kinds_;  // of each layer: with experts, window
  std::array<std::vector<uint32_t>, kKinds> kinds_before_;  // layers of the kind before an index
  std::vector<Set> sets_;
  std::vector<Measured> measured_;  // one for each evaluator
  Measured* now_ = nullptr;
  std::vector<Sums> sums_;  // of each module and whole layers, over the stage's first layers
  std::vector<uint32_t> chunks_;
  std::vector<StageRoom> rooms_;
  std::vector<Evaluator::StageSeconds> stages_;
  std::vector<double> least_s_;     // of each stage: recompute
  std::vector<FreedAtRate> steps_;  // of the current stage
  uint64_t effort_ = 0;
  bool keeps_experts_ = false;  // of the current training
  bool dense_here_ = false;     // of the current stage
  bool experts_here_ = false;
  spec::Training bare_;
  spec::Training with_;
};

}  // namespace longhaul::planner::search
