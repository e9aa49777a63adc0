// What somebody runs now, read from the configuration of their training framework.
//
// The inverse of planner/flags: Megatron-LM's options (a shell script, a list of options or YAML),
// DeepSpeed's JSON and torchtitan's TOML become sizes, layout, precision, recompute, ZeRO stage and
// batch of a Question. What a file leaves out has the framework's own default; what that needs to
// know of the rest is listed in `assumed`. Options that decide nothing here are passed over by a
// list in each reader; others are named with the nearest known one in `unknown`. Texts come from
// outside: at most 1 MiB, all figures bounded. Leaves out what a framework sets in its code.
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
  std::optional<spec::Model> model;  // where the file has the sizes
  std::string model_name;            // where it only names one: "llama3 8B"
  uint32_t sequence_length = 0;      // 0: not said
  // Layout (but data and shard_group), recompute, precision and software. A field below that is 0
  // is not said, and follows from the others and the cluster.
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
  size_t passed_over = 0;  // settings that decide nothing here
};

// Refuses wrong values (all mistakes at once, each with its option), the built-in trainer's files
// (`longhaul run` reads those), and settings that contradict each other. `source` names the text.
Result<RunConfig> ReadRunConfig(flags::Framework framework, std::string_view text,
                                std::string_view source);

// The question that the run answers on this cluster, also where the file starts another number of
// ranks (`devices`). `model` stands for the file's where it is given. Refuses with what is missing,
// and layouts that spec::CheckTraining refuses.
Result<Question> QuestionOf(const RunConfig& config, const std::optional<spec::Model>& model,
                            const spec::DeviceCluster& cluster);

}  // namespace longhaul::planner::configs
