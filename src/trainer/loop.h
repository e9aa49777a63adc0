// Data-parallel training of the GPT, step by step.
//
// A step: its samples -> forward and backward in micro batches -> one sum over the ranks of
// gradients, loss and wishes -> clip, AdamW -> evaluation when due -> snapshot when any rank's
// agent asks -> report. Loss and gradients are sums over tokens divided by the global count of
// tokens, never means of means.
//
// Everything random is a function of the seed and the step, so the weights after a step are the
// same bits in every run of a layout, restored or not.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "corpus/token_file.h"
#include "trainer/config.h"
#include "trainer/group.h"
#include "trainer/job_door.h"
#include "trainer/model.h"
#include "trainer/optimizer.h"
#include "trainer/parameters.h"
#include "trainer/sample_recorder.h"

namespace longhaul::trainer {

class Loop {
 public:
  // Opens the data and sets up a fresh state. `stop` is looked at once a step. All outlive the
  // loop.
  static Result<std::unique_ptr<Loop>> Create(const TrainerConfig& config, Group& group,
                                              JobDoor& door, const std::atomic<bool>& stop);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Registers the state, restores it and trains to the last step, then evaluates, saves and, on
  // rank 0, writes the sample. kCancelled when a rank was told to stop: the state is saved.
  Status Run();

  // The state before step 1.
  void Fresh();
  // One step, from the state after step - 1. The gradients stay until the next.
  Status Step(uint64_t step, StepReport& report);
  std::vector<StateTensor> State();
  std::span<const float> gradients() const { return gradients_; }
  uint64_t WeightsHash();

 private:
  Loop(const TrainerConfig& config, Group& group, JobDoor& door, const std::atomic<bool>& stop,
       corpus::TokenFile train, corpus::TokenFile held_out);

  // Puts whole samples of a text into tokens_.
  void Load(std::span<const uint16_t> tokens, std::span<const uint64_t> samples);
  // The mean loss over the held-out samples on all ranks; NaN when there are none.
  Result<double> Evaluate();
  void StopRecording(const Status& why);
  Status RunSteps(uint64_t first);
  Status TakeSnapshot(uint64_t step);
  Status FinishRun();

  const TrainerConfig& config_;
  Group& group_;
  JobDoor& door_;
  const std::atomic<bool>& stop_;
  corpus::TokenFile train_;
  corpus::TokenFile held_out_;
  ParameterTable table_;
  Optimizer optimizer_;
  std::vector<float> gradients_;  // and behind them what is summed beside them
  std::unique_ptr<Gpt> model_;
  std::vector<uint64_t> samples_;             // of this rank in the step
  std::vector<int64_t> tokens_;               // of a micro batch
  std::unique_ptr<SampleRecorder> recorder_;  // absent: nobody asked
  std::optional<double> final_validation_loss_;
  bool snapshot_agreed_ = false;
  bool stop_agreed_ = false;
};

}  // namespace longhaul::trainer
