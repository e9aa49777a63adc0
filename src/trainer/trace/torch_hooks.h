// What libtorch tells a Recorder: the kernels that it runs and the graph that it builds.
#pragma once

#include <cstdint>

#include "trainer/trace/recorder.h"

namespace longhaul::trainer {

// The number that the next node of this thread's graph gets.
uint64_t NextNode();

// While it lives, operators of this thread are told to the recorder: the outermost of those that
// call each other, forward and backward. One a thread.
class TorchHooks {
 public:
  explicit TorchHooks(Recorder& recorder);
  TorchHooks(const TorchHooks&) = delete;
  TorchHooks& operator=(const TorchHooks&) = delete;
  ~TorchHooks();

 private:
  uint64_t handle_;
};

// While it lives, an operator of the model runs forward. `recorder` may be null.
class RecordedOperator {
 public:
  RecordedOperator(Recorder* recorder, const OperatorLabel& label) : recorder_(recorder) {
    if (recorder_ != nullptr) recorder_->BeginOperator(label, NextNode());
  }
  RecordedOperator(const RecordedOperator&) = delete;
  RecordedOperator& operator=(const RecordedOperator&) = delete;
  ~RecordedOperator() {
    if (recorder_ != nullptr) recorder_->EndOperator(NextNode());
  }

 private:
  Recorder* recorder_;
};

}  // namespace longhaul::trainer
