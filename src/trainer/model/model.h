// The byte-level GPT: learned positions, pre-norm blocks, causal attention, GELU, untied output
// (Radford et al., GPT-2, 2019). One device, no dropout; the gradients are libtorch's.
//
//   x = token[t] + previous_1[t-1] + previous_2[t-2] + previous_3[t-3] + position
//   x += output(attention(qkv(norm(x))))         in each layer
//   x += down(gelu(up(norm(x))))
//   loss = -log softmax(out(norm(x)))[next token], summed over tokens, in nats
//
// A rank may hold a part of it (parameters.h): then a stage receives and sends the residual stream,
// and the parts of a layer sum their contributions to it (parallel/tensor_parallel.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "spec/job/job.h"
#include "trainer/model/parameters.h"
#include "trainer/parallel/group.h"
#include "trainer/trace/recorder.h"

namespace at {
class Tensor;
}

namespace longhaul::trainer {

// Sets libtorch to one thread and fast allocation; warms its caches with a tiny step. Starts no
// thread, so a process may fork afterwards. Call it once, before anything else here.
void PrepareTorch();

class Gpt {
 public:
  // Reads weights from and adds gradients to buffers of table.floats() floats that outlive this
  // object; without gradients it only runs forward. `tensor` is the group of the tensor parts; null
  // when there are none.
  Gpt(const spec::ModelSpec& model, const ParameterTable& table, std::span<float> weights,
      std::span<float> gradients, Group* tensor = nullptr);
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;
  ~Gpt();

  // The part's forward of whole samples of sequence + 1 tokens, which must not change until its
  // backward. The first stage begins with the tokens, others with `input`, the residual stream
  // [tokens, hidden]. The last stage returns the summed loss, others the residual stream.
  at::Tensor Forward(const at::Tensor& input, std::span<const int64_t> tokens);
  // For the last stage: adds the gradient of scale * loss.
  void Backward(const at::Tensor& loss, double scale);
  // After this call its operators are reported to the recorder; null: to none.
  void Record(Recorder* recorder);
  // The error of a sum over the tensor parts; all later results are meaningless.
  const Status& failure() const;

  // The logits of the token after the context, one for each word of the vocabulary. Requires 1 to
  // sequence tokens and the whole model.
  std::vector<float> NextLogits(std::span<const int64_t> context);

 private:
  struct Tensors;
  std::unique_ptr<Tensors> tensors_;
};

}  // namespace longhaul::trainer
