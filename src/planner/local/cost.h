// The cost of a layout of the built-in trainer on the machine that a local cluster shares: seconds
// per step, and memory of a worker.
//
// Time. The operators of spec/model/operators.h, each at its size on one core by measured figures
// (local/operator_times.h), make a micro-batch; micro-batches and the optimizer make a rank. With
// more ranks than cores the slowest rank shares its core with ceil(ranks / cores) - 1 others, and
// all wait for it at the all-reduce of the gradients, which is never hidden. The share of the cores
// that agents and controller use in a step is measured by a run without work.
// A model divided into tensor parts and stages takes longer: its ranks wait for each other many
// times a step while others use their cores (local/parts/shared_cores.h simulates this).
// Memory. The allocations are replayed, tensor by tensor, in the trainer's pool, over a step and
// over an evaluation (local/tape.h); states, snapshot slots, the mapped token files and the memory
// of a process before its model are added. Activations of a divided model are predicted as for the
// whole model, which is an upper bound.
// Figures assume busy neighbours, so a machine that is not full is up to a tenth faster than
// predicted. Leaves out loading of data, snapshots and evaluation (of time).
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/units.h"
#include "planner/local/device_file.h"
#include "planner/local/operator_times.h"
#include "spec/job/job.h"

namespace longhaul::planner {

// The knowledge about the machine, least first.
enum class CalibrationLevel {
  kAssumed,     // shipped figures of another machine
  kPeak,        // the same, scaled to this machine's measured speed of matmuls
  kCalibrated,  // figures measured on this machine
};

std::string_view LevelName(CalibrationLevel level);  // "assumed", "peak", "calibrated"

// The machine that all nodes of a local cluster share.
struct MachineFacts {
  uint32_t cores = 0;
  Bytes memory;
  CalibrationLevel level = CalibrationLevel::kAssumed;
  DeviceFile device;  // its figures
  std::string basis;  // the source, for a person: "measured by longhaul calibrate on ..."
};

// The figures shipped with the program, for a core that does 512 x 512 matmuls at `core_peak`:
// those of the machine on which they were measured, with times of matmuls and attention scaled.
DeviceFile ShippedCpu(FlopsPerSecond core_peak);

// Rejects a machine without cores or memory.
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

// The division of a model over the ranks; rank numbers as in spec::LayoutSpec.
struct LocalLayout {
  uint32_t data = 1;
  uint32_t tensor = 1;
  uint32_t pipeline = 1;

  uint32_t ranks() const { return data * tensor * pipeline; }
  bool whole_model() const { return tensor == 1 && pipeline == 1; }

  friend bool operator==(const LocalLayout&, const LocalLayout&) = default;
};

struct PartTime {
  double layer_s = 0;  // for each layer, forward and backward
  double ends_s = 0;   // embedding and output
};

class LocalCost {
 public:
  // Requires facts that CheckFacts accepts. `facts` must outlive this object.
  explicit LocalCost(const MachineFacts& facts);

  // The time of a step of a layout with micro-batches of `micro_batch` sequences. Requires data *
  // micro_batch to divide global_batch, and a layout that is valid for the model.
  StepTime Step(const spec::ModelSpec& model, uint32_t global_batch, const LocalLayout& layout,
                uint32_t micro_batch) const;

  // The compute time of a micro-batch on a tensor part.
  PartTime MicroBatch(const spec::ModelSpec& model, uint32_t tensor, uint32_t micro_batch) const;
  // A lower bound of Step, much faster: the compute time alone, of the busiest rank or of all ranks
  // over the cores.
  Seconds LeastStep(const spec::ModelSpec& model, uint32_t global_batch, const LocalLayout& layout,
                    uint32_t micro_batch, const PartTime& part) const;

  // The memory of the fullest rank. `data` is the size of the token files.
  RankMemory Memory(const spec::ModelSpec& model, const spec::TrainSpec& train,
                    const LocalLayout& layout, uint32_t micro_batch, Bytes data) const;

  const OperatorTimes& times() const { return times_; }

 private:
  double MicroBatchSeconds(const spec::ModelSpec& model, uint32_t micro_batch) const;
  // For a model in parts. All time but the optimizer's and the gradients' all-reduce counts as
  // compute: messages and sums of a layer's parts, and waiting for them.
  void PartedStep(const spec::ModelSpec& model, const LocalLayout& layout, uint32_t micro_batch,
                  uint32_t micro_batches, StepTime& step) const;

  const MachineFacts& facts_;
  OperatorTimes times_;
};

// Parameters of the built-in trainer, with the tables of earlier tokens.
int64_t TrainerParameters(const spec::ModelSpec& model);
// For one rank: its stage's layers, and its part of each matrix (trainer/model/parameters.h).
int64_t StageParameters(const spec::ModelSpec& model, const LocalLayout& layout, uint32_t stage);

}  // namespace longhaul::planner
