// What a layout of the built-in trainer costs on the machine that a local cluster shares: seconds a
// step, and memory of a worker.
//
// Time. The operators of spec/model/operators.h, each at its size on one core by measured figures
// (local/operator_times.h), make a micro-batch; micro-batches and the optimizer make a rank. With
// more ranks than cores the slowest rank shares its core with ceil(ranks / cores) - 1 others, and
// all wait for it at the all-reduce of the gradients, which nothing hides. What agents and
// controller take of the cores a step is measured by a run with nothing to do.
// A model cut into tensor parts and stages is more than that: its ranks wait for each other many
// times a step while others use their cores (local/parts/shared_cores.h plays it through).
// Memory. What is allocated is replayed, tensor by tensor, in the trainer's pool, over a step and
// over an evaluation (local/tape.h); states, snapshot slots, the mapped token files and what a
// process has before its model are added. Activations of a model in parts are told as of the whole,
// an upper bound.
// Figures are of busy neighbours, so a machine that is not full is up to a tenth faster than told.
// Leaves out loading of data, snapshots and evaluation (of time).
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/units.h"
#include "planner/local/device_file.h"
#include "planner/local/operator_times.h"
#include "spec/job/job.h"

namespace longhaul::planner {

// How much is known of the machine, least first.
enum class CalibrationLevel {
  kAssumed,     // shipped figures of another machine
  kPeak,        // the same, at this machine's measured speed of matmuls
  kCalibrated,  // its own figures
};

std::string_view LevelName(CalibrationLevel level);  // "assumed", "peak", "calibrated"

// The machine that all nodes of a local cluster share.
struct MachineFacts {
  uint32_t cores = 0;
  Bytes memory;
  CalibrationLevel level = CalibrationLevel::kAssumed;
  DeviceFile device;  // its figures
  std::string basis;  // where they are from, for a person: "measured by longhaul calibrate on ..."
};

// The figures shipped with the program, for a core that does 512 x 512 matmuls at `core_peak`:
// those of the machine they were measured on, times of matmuls and attention scaled.
DeviceFile ShippedCpu(FlopsPerSecond core_peak);

// Refuses a machine without cores or memory.
Status CheckFacts(const MachineFacts& facts);

struct RankMemory {
  Bytes weights;
  Bytes gradients;
  Bytes moments;         // AdamW's two
  Bytes activations;     // at the fullest moment of a step or an evaluation
  Bytes snapshot_slots;  // three of weights and moments: the agent's memory, mapped here
  Bytes data;            // the mapped token files
  Bytes process;         // libraries, runtime, sockets

  Bytes total() const;
};

struct StepTime {
  Seconds compute;    // forward and backward of all micro-batches, on the slowest rank
  Seconds optimizer;  // likewise
  Seconds all_reduce;
  Seconds runtime;  // agents and controller beside the workers

  Seconds total() const { return compute + optimizer + all_reduce + runtime; }
};

// How the ranks share a model; rank numbers as spec::LayoutSpec has them.
struct LocalLayout {
  uint32_t data = 1;
  uint32_t tensor = 1;
  uint32_t pipeline = 1;

  uint32_t ranks() const { return data * tensor * pipeline; }
  bool whole_model() const { return tensor == 1 && pipeline == 1; }

  friend bool operator==(const LocalLayout&, const LocalLayout&) = default;
};

struct PartTime {
  double layer_s = 0;  // each of them, forward and backward
  double ends_s = 0;   // embedding and output
};

class LocalCost {
 public:
  // Requires facts that CheckFacts accepts. `facts` must outlive this.
  explicit LocalCost(const MachineFacts& facts);

  // How a layout with micro-batches of `micro_batch` sequences fills a global batch.
  // Requires data * micro_batch to divide global_batch, and a layout that the model can have.
  StepTime Step(const spec::ModelSpec& model, uint32_t global_batch, const LocalLayout& layout,
                uint32_t micro_batch) const;

  // The computing of a micro-batch by a tensor part.
  PartTime MicroBatch(const spec::ModelSpec& model, uint32_t tensor, uint32_t micro_batch) const;
  // What Step cannot be below, much quicker: the computing alone, of the busiest rank or of all
  // over the cores.
  Seconds LeastStep(const spec::ModelSpec& model, uint32_t global_batch, const LocalLayout& layout,
                    uint32_t micro_batch, const PartTime& part) const;

  // Of the fullest rank. `data` is the size of the token files.
  RankMemory Memory(const spec::ModelSpec& model, const spec::TrainSpec& train,
                    const LocalLayout& layout, uint32_t micro_batch, Bytes data) const;

  const OperatorTimes& times() const { return times_; }

 private:
  double MicroBatchSeconds(const spec::ModelSpec& model, uint32_t micro_batch) const;
  // Of a model in parts. What is not the optimizer's or the gradients' sum is told as compute:
  // messages and sums of a layer's parts, and waiting for them.
  void PartedStep(const spec::ModelSpec& model, const LocalLayout& layout, uint32_t micro_batch,
                  uint32_t micro_batches, StepTime& step) const;

  const MachineFacts& facts_;
  OperatorTimes times_;
};

// Parameters of the built-in trainer, with the tables of earlier tokens.
int64_t TrainerParameters(const spec::ModelSpec& model);
// Of one rank: its stage's layers, of each matrix its part (trainer/model/parameters.h).
int64_t StageParameters(const spec::ModelSpec& model, const LocalLayout& layout, uint32_t stage);

}  // namespace longhaul::planner
