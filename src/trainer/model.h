// The byte-level GPT: learned positions, pre-norm blocks, causal attention, GELU, untied output
// (Radford et al., GPT-2, 2019). One device, no dropout; the gradients are libtorch's.
//
//   x = token[t] + previous_1[t-1] + previous_2[t-2] + previous_3[t-3] + position
//   x += output(attention(qkv(norm(x))))         in each layer
//   x += down(gelu(up(norm(x))))
//   loss = -log softmax(out(norm(x)))[next token], summed over tokens, in nats
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "spec/job.h"
#include "trainer/parameters.h"

namespace longhaul::trainer {

// libtorch on one thread, quick allocation; warms its caches with a tiny step. Starts no thread, so
// a process may fork afterwards. Once, before anything else here.
void PrepareTorch();

class Gpt {
 public:
  // Reads weights from and adds gradients to buffers of table.floats() floats that outlive this.
  Gpt(const spec::ModelSpec& model, const ParameterTable& table, std::span<float> weights,
      std::span<float> gradients);
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;
  ~Gpt();

  // `tokens` holds whole samples of sequence + 1 tokens. Returns the summed loss and adds the
  // gradient of scale * loss.
  double ForwardBackward(std::span<const int64_t> tokens, double scale);
  // The same without gradients.
  double Loss(std::span<const int64_t> tokens);
  // Of what follows the context, one a word of the vocabulary. Requires 1 to sequence tokens.
  std::vector<float> NextLogits(std::span<const int64_t> context);

 private:
  struct Tensors;
  std::unique_ptr<Tensors> tensors_;
};

}  // namespace longhaul::trainer
