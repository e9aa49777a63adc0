// Runs a stage of the pipeline: a step's micro-batches forward and backward in the order of
// planner/local/parts/pipeline_order.h, with the residual stream and its gradients as messages
// between neighbours.
//
// A micro-batch's stream is sent forward with the tag 2 i, its gradient back with 2 i + 1. Sent
// tensors are kept until the end of the step. With one stage this is gradient accumulation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "trainer/model/model.h"
#include "trainer/parallel/group.h"
#include "trainer/trace/recorder.h"

namespace longhaul::trainer {

// The micro-batches of a step or an evaluation.
struct MicroBatches {
  uint32_t count = 0;
  std::function<size_t(uint32_t micro_batch)> sequences;
  // Whole samples of sequence + 1 tokens; called on the first and the last stage only.
  std::function<std::vector<int64_t>(uint32_t micro_batch)> load;
};

class Pipeline {
 public:
  // `stages` by ascending stage. All arguments outlive this object.
  Pipeline(Gpt& model, const ModelPart& part, const spec::ModelSpec& shape, Group& stages);
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline();

  // The summed loss, on the last stage; elsewhere 0. Adds the gradients of scale * loss.
  Result<double> Train(const MicroBatches& batches, double scale, Recorder* recorder);
  // The same without gradients.
  Result<double> Evaluate(const MicroBatches& batches);

 private:
  struct Passage;  // a micro-batch between its forward and its backward

  Status Forward(const MicroBatches& batches, uint32_t micro_batch, bool trains);
  Status Backward(uint32_t micro_batch, double scale);
  Status Finish();

  Gpt& model_;
  const ModelPart part_;
  const int64_t hidden_;
  const int64_t sequence_;
  Group& stages_;
  std::vector<Passage> passages_;  // by micro-batch
  double loss_ = 0;
};

}  // namespace longhaul::trainer
