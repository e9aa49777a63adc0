// A user's present run, read from the configuration of the training framework.
//
// The inverse of planner/flags: Megatron-LM's options (a shell script, a list of options or YAML),
// DeepSpeed's JSON and torchtitan's TOML become sizes, layout, precision, recompute, ZeRO stage and
// batch of a Question. A missing value gets the framework's own default; a default that depends on
// other values is listed in `assumed`. Options without an effect here are on an ignore list in each
// reader; others are in `unknown`, with the nearest known name. Texts come from outside: at most 1
// MiB, all figures bounded. Leaves out what a framework sets in its code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "planner/evaluation.h"
#include "planner/flags/flags.h"

namespace longhaul::planner::configs {

constexpr size_t kLargestRunConfig = 1 << 20;

struct RunConfig {
  flags::Framework framework = flags::Framework::kMegatron;
  std::optional<spec::Model> model;  // present where the file has the sizes
  std::string model_name;            // where the file only names a model: "llama3 8B"
  uint32_t sequence_length = 0;      // 0: not given
  // Layout (but data and shard_group), recompute, precision and software. A field below that is 0
  // is not given, and follows from the others and the cluster.
  spec::Training training;
  uint32_t devices = 0;
  uint32_t devices_per_node = 0;
  uint32_t data = 0;
  uint32_t copies = 1;  // of the states: replicas that do not share one (HSDP)
  uint32_t global_batch = 0;
  uint32_t micro_batch = 0;
  uint32_t micro_batches = 0;  // of a step and replica
  std::vector<std::string> assumed{};
  std::vector<std::string> unknown{};
  size_t passed_over = 0;  // ignored settings without an effect here
};

// Rejects wrong values (all mistakes at once, each with its option), the built-in trainer's files
// (`longhaul run` reads those), and contradictory settings. `source` names the text.
Result<RunConfig> ReadRunConfig(flags::Framework framework, std::string_view text,
                                std::string_view source);

// The question for this run on this cluster, also where the file starts another number of ranks
// (`devices`). `model` replaces the file's model where it is given. An error names the missing
// value; layouts that spec::CheckTraining rejects are rejected.
Result<Question> QuestionOf(const RunConfig& config, const std::optional<spec::Model>& model,
                            const spec::DeviceCluster& cluster);

}  // namespace longhaul::planner::configs
