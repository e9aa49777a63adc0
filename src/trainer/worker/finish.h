// The results of a completed run: a text written by the model, and its last numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/units.h"
#include "spec/job/job.h"
#include "trainer/model/model.h"

namespace longhaul::trainer {

// A byte drawn from softmax(logits / temperature) by a number in [0, 1); the most likely one when
// the temperature is 0. Requires logits.
uint32_t Draw(std::span<const float> logits, double temperature, double uniform);

// Continues the prompt for spec.bytes bytes, or to the end of a file. Depends only on the weights,
// the spec and the seed.
std::string GenerateText(Gpt& model, uint32_t sequence, const spec::SampleSpec& sample,
                         uint64_t seed);

struct FinalFacts {
  std::string prompt;
  std::string sample;  // without the prompt
  size_t parameters = 0;
  uint64_t weights_hash = 0;  // XXH3-64 of all weights
  double validation_loss = 0;
  FlopsPerSecond peak_per_core;
  Bytes peak_memory;  // of the fullest rank, resident
};

// {"prompt", "sample", "parameters", "weights_hash": "hex", "validation_loss",
//  "peak_flops_per_second" of all cores, "cores", "peak_memory_bytes"}. Bytes that aren't UTF-8 are
//  replaced.
std::string ResultJson(const FinalFacts& facts);

}  // namespace longhaul::trainer
