// The trainer's configuration: the job's JSON (spec::ToJson) and the locations of its files.
//
// In addition to the job's keys: "data_directory" (train.tokens and held_out.tokens),
// "run_directory" and, optionally, "record_samples" (record the samples of each step, for an audit)
// and "from" ({"folder": "/runs/base/checkpoints", "step": 300, "attempt": 1}, the checkpoint with
// the first weights). Unknown keys belong to other programs and are ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "spec/job/job.h"
#include "trainer/parallel/mesh.h"

namespace longhaul::trainer {

// A committed step from which a fresh state takes its weights.
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
  uint32_t micro_batch = 0;  // sequences of one forward and backward; 0: the rank's whole part
  std::string data_directory;
  std::string run_directory;  // may be empty when record_samples is false
  bool record_samples = false;
  std::optional<StartingWeights> from;  // absent: weights by the seed
};

// kInvalidArgument, with the key, for any value with which the trainer could not run.
Result<TrainerConfig> ParseTrainerConfig(std::string_view json);

}  // namespace longhaul::trainer
