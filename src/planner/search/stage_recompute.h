// What each pipeline stage recomputes by itself: the least that makes it fit.
//
// Early stages hold more micro-batches than late ones, so one choice for all recomputes too much
// somewhere. Here every stage has, for each module (norms, FFN, core attention, latent projections,
// experts or their activation) and for whole layers, a number of its first layers in which it is
// recomputed; nested, so that a stage is a few runs of layers. Chosen exactly by knapsack.h under
// the card's memory, with the memory model's own parts: states, saved tensors by chunk and
// micro-batches held, what recompute rebuilds in one layer, the loss. A stage recomputes either
// experts or their activation, and not where activations are offloaded. Extra prediction layers
// keep everything.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/evaluate.h"
#include "planner/memory/memory_model.h"
#include "planner/search/job.h"
#include "planner/search/knapsack.h"

namespace longhaul::planner::search {

// The modules whose recompute frees anything in this job, one by one.
std::vector<spec::RecomputeModules> SingleModules(const Job& job);

class RecomputeChooser {
 public:
  explicit RecomputeChooser(const Job& job);

  // Sets the training's recompute by stage: each stage's least time, by the evaluator's figures,
  // that keeps the card's memory at `limit` or below. Zero where it has; infinite where a stage
  // does not fit with any choice; a bound of the step, at least `enough`, where one stage takes as
  // long. Evaluator and memory are of the job's model.
  double Choose(Evaluator& evaluator, MemoryModel& memory, int64_t limit, spec::Training& training,
                double enough);

 private:
  // What one module (or the whole layer) costs and frees in a layer of one kind.
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
    bool largest = false;  // part of no other
  };
  // What layers cost and free, of one evaluator's last layout.
  struct Measured {
    const Evaluator* evaluator = nullptr;
    spec::Layout layout;
    spec::Batch batch;
    std::vector<Worth> worths;                     // of each module and whole layers, by kind
    std::vector<double> live_dense, live_experts;  // of each set
    double live_full[2] = {0, 0};
  };
  struct Best {
    RecomputePlan plan;
    uint32_t full = 0;  // layers
    std::vector<size_t> items;
  };

  // Sets now_.
  void Find(Evaluator& evaluator, MemoryModel& memory, const spec::Training& bare);
  void Measure(Evaluator& evaluator, MemoryModel& memory, const spec::Training& bare);
  void SumLayers(const spec::Training& bare, uint32_t stage, const StageRoom& room);
  // What its backward then takes; infinite where it does not fit.
  double ChooseStage(uint32_t stage, const StageRoom& room, double most, RecomputeTime without,
                     std::vector<spec::RecomputeRun>& runs);
  void AddRuns(uint32_t stage, const Best& best, std::vector<spec::RecomputeRun>& runs) const;

  const spec::Model model_;
  std::vector<spec::RecomputeModules> modules_;
  std::vector<uint32_t> kinds_;  // of each layer: with experts, window
  std::vector<Set> sets_;
  std::vector<Measured> measured_;  // one an evaluator
  Measured* now_ = nullptr;
  std::vector<Sums> sums_;  // of each module and whole layers, over the stage's first layers
  std::vector<uint32_t> chunks_;
  std::vector<StageRoom> rooms_;
  std::vector<Evaluator::StageSeconds> stages_;
  bool dense_here_ = false;  // of the stage in hand
  bool experts_here_ = false;
  spec::Training bare_;
  spec::Training with_;
};

}  // namespace longhaul::planner::search
