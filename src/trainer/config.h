// What the trainer is told: the job's JSON (spec::ToJson) plus where its files are.
//
// Beside the job's keys: "data_directory" (train.tokens and held_out.tokens), "run_directory" and,
// optionally, "record_samples" (write what each step used, for an audit) and "from" ({"folder":
// "/runs/base/checkpoints", "step": 300, "attempt": 1}, the checkpoint whose weights it begins
// with). Keys the trainer doesn't know are other people's and are left alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "spec/job/job.h"
#include "trainer/parallel/mesh.h"

namespace longhaul::trainer {

// A committed step whose weights a fresh state begins with.
struct StartingWeights {
  std::string folder;  // of the steps; s3://... too
  uint64_t step = 0;
  uint64_t attempt = 0;
};

struct TrainerConfig {
  spec::ModelSpec model;
  spec::TrainSpec train;
  spec::SampleSpec sample;
  MeshSizes layout;
  spec::TraceSpec trace;
  uint32_t micro_batch = 0;  // sequences a forward-backward; 0: the rank's whole part
  std::string data_directory;
  std::string run_directory;  // may be empty when record_samples is false
  bool record_samples = false;
  std::optional<StartingWeights> from;  // nothing: weights by the seed
};

// kInvalidArgument naming the key for anything that the trainer could not run with.
Result<TrainerConfig> ParseTrainerConfig(std::string_view json);

}  // namespace longhaul::trainer
