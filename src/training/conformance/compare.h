// Whether a layout computes the same training as the plain model (model/reference.h) on one device:
// losses and norms of each step, the gradients of the first one, the weights at the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "training/step.h"

namespace longhaul::training {

struct Exercise {
  ModelConfig config;
  StepOptions options;
  uint32_t steps = 50;
  bool ragged = false;  // sequences of different lengths, one of them empty
  std::string name;     // of the model, for messages
};

// What the plain model computes, step by step.
struct Expected {
  std::vector<StepResult> steps;
  WholeWeights first_gradients;
  WholeWeights weights;
};
Expected RunReference(const Exercise& exercise);

// The batch of a step: the same tokens in every layout.
Batch BatchOf(const Exercise& exercise, uint64_t step);

struct Tolerance {
  double loss = 1e-5;
  double norm = 1e-4;  // relative
  // Absolute: AdamW divides a gradient by its own size, so that an element whose gradient is hardly
  // more than rounding has a large relative error.
  double weights = 1e-5;
  double gradients = 1e-5;  // of the first step, relative to the parameter's largest
};
Tolerance ToleranceOf(at::ScalarType type);

struct Comparison {
  std::string failure;  // empty: the layout computes the same. Names the first that differs
  double loss = 0;      // the largest differences
  double norm = 0;
  double weights = 0;
  double gradients = 0;
};
// With several layouts, each takes over the state of the one before after an equal share of the
// steps.
Comparison CompareLayouts(const Exercise& exercise, const Expected& expected,
                          const std::vector<Layout>& layouts, WholeWeights* weights = nullptr);

// The same with ranks that are processes, which talk over Gloo. With several layouts, the processes
// of each but the last are killed (SIGKILL) after their share of the steps, in one of the next, and
// those of the next layout begin with what was saved. Forks, so that the caller must have one
// thread.
Comparison CompareProcesses(const Exercise& exercise, const Expected& expected,
                            const std::vector<Layout>& layouts, WholeWeights* weights = nullptr);

// Of all bits.
uint64_t HashOf(const WholeWeights& weights);

}  // namespace longhaul::training
