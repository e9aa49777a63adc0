// Reports libtorch's kernels and the graph that it builds to a Recorder.
#pragma once

#include <cstdint>

#include "trainer/trace/recorder.h"

namespace longhaul::trainer {

// The number of the next node of this thread's graph.
uint64_t NextNode();

// While the object exists, operators of this thread are reported to the recorder: the outermost of
// nested ones, forward and backward. One object per thread.
class TorchHooks {
 public:
  explicit TorchHooks(Recorder& recorder);
  TorchHooks(const TorchHooks&) = delete;
  TorchHooks& operator=(const TorchHooks&) = delete;
  ~TorchHooks();

 private:
  uint64_t handle_;
};

// Records a forward operator of the model from construction to destruction. `recorder` may be null.
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
