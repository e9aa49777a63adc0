// Training of the GPT, step by step, on this rank's part of it.
//
// A step: its samples -> forward and backward in micro batches through the stages -> one sum over
// the replicas of gradients, loss and requests -> where a model is in parts, one sum over them of
// the gradient's norm, loss and requests -> clip, AdamW -> evaluation when due -> snapshot when any
// rank's agent requests one -> report. Loss and gradients are sums over tokens divided by the
// global count of tokens, never means of means.
//
// All random values are functions of the seed and the step, so the weights after a step are the
// same bits in every run of a layout, restored or not.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "corpus/token_file.h"
#include "trainer/config.h"
#include "trainer/model/model.h"
#include "trainer/model/optimizer.h"
#include "trainer/model/parameters.h"
#include "trainer/parallel/communicators.h"
#include "trainer/parallel/pipeline.h"
#include "trainer/trace/recorder.h"
#include "trainer/worker/finish.h"
#include "trainer/worker/sample_recorder.h"
#include "trainer/worker/worker_api.h"

namespace longhaul::trainer {

class StepTracer;

class Loop {
 public:
  // Opens the data and sets up a fresh state. `stop` is read once per step. All arguments outlive
  // the loop.
  static Result<std::unique_ptr<Loop>> Create(const TrainerConfig& config, Communicators& groups,
                                              WorkerApi& worker_api, const std::atomic<bool>& stop);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop();

  // Registers the state, restores it and trains to the last step, then evaluates, saves and, on
  // rank 0, writes the sample. kCancelled when a rank received a stop: the state is saved.
  // `before_steps` is called when the state is restored, before the first step.
  Status Run(const std::function<void()>& before_steps = {});

  // The state before step 1: weights of the checkpoint in the configuration, else by the seed;
  // moments of zero.
  Status Fresh();
  // One step, from the state after step - 1. The gradients stay until the next.
  Status Step(uint64_t step, StepReport& report, Recorder* recorder = nullptr);
  std::vector<StateTensor> State();
  std::span<const float> gradients() const { return gradients_; }
  std::span<const float> weights() { return optimizer_.weights(); }
  const ParameterTable& table() const { return table_; }
  // The hash of this rank's weights.
  uint64_t WeightsHash();

 private:
  Loop(const TrainerConfig& config, Communicators& groups, WorkerApi& worker_api,
       const std::atomic<bool>& stop, corpus::TokenFile train, corpus::TokenFile held_out);

  // Whole samples of a text.
  std::vector<int64_t> Load(std::span<const uint16_t> tokens,
                            std::span<const uint64_t> samples) const;
  // This rank's share of the step's samples: replicas' shares differ by at most one.
  void ChooseSamples(uint64_t step);
  // Forward and backward; the summed loss where it is known.
  Result<double> Compute(StepReport& report, Recorder* recorder);
  // Sums the gradients and the values appended to them; returns the gradient's norm.
  Result<double> Reduce(double loss, uint64_t step, StepReport& report, Recorder* recorder);
  OperatorLabel OptimizerLabel() const;
  double OwnSquaredNorm() const;
  // The mean loss over the held-out samples on all ranks; NaN when there are none.
  Result<double> Evaluate();
  void StopRecording(const Status& why);
  Status RunSteps(uint64_t first);
  Status TakeSnapshot(uint64_t step);
  Status TracedStep(uint64_t step, StepReport& report);
  Status FinishRun();
  // Rank 0 reports the results of the whole model.
  Status Conclude(Gpt& model, const ParameterTable& table, std::span<const float> weights,
                  FinalFacts& facts);
  Status GatherAndConclude(FinalFacts& facts);

  const TrainerConfig& config_;
  Communicators& groups_;
  const Mesh mesh_;
  WorkerApi& worker_api_;
  const std::atomic<bool>& stop_;
  corpus::TokenFile train_;
  corpus::TokenFile held_out_;
  ParameterTable table_;
  Optimizer optimizer_;
  std::vector<float> gradients_;  // followed by the values that are summed with them
  std::unique_ptr<Gpt> model_;
  std::unique_ptr<Pipeline> pipeline_;
  std::vector<uint64_t> samples_;             // of this rank in the step
  std::unique_ptr<StepTracer> tracer_;        // absent: no further step is traced
  std::unique_ptr<SampleRecorder> recorder_;  // absent: not requested
  std::optional<double> final_validation_loss_;
  bool snapshot_agreed_ = false;
  bool stop_agreed_ = false;
};

}  // namespace longhaul::trainer
