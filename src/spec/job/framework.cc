#include "spec/job/framework.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace longhaul::spec {

namespace {

using Arguments = std::vector<std::string>;
using Variable = std::pair<std::string_view, std::string_view>;

// One framework. Functions are null where the framework needs nothing.
struct Framework {
  std::string_view name;
  std::string_view module;        // started by default
  std::string_view step_pattern;  // a preset of spec/job/step_pattern.h
  std::array<Variable, 6> environment;
  // The variables that the framework's launcher derives from torchrun's: a shell's assignments.
  std::string_view derived;
  std::string_view first_argument;  // directly after the script
  void (*add_checkpoints)(const RecipeSpec& recipe, const std::string& directory,
                          Arguments& arguments);
};

// Without --save-interval Megatron saves only at the end.
constexpr uint64_t kMegatronInterval = 1'000;

// The value that the arguments give to an option, as "--option VALUE" or "--option=VALUE". tyro,
// which reads torchtitan's arguments, takes '-' for '_'; Megatron has no options that differ only
// in that.
std::optional<std::string> ValueOf(const Arguments& arguments, std::string_view option) {
  const auto same = [&](std::string_view word) {
    return std::ranges::equal(
        word, option, [](char a, char b) { return (a == '_' ? '-' : a) == (b == '_' ? '-' : b); });
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const size_t equals = std::min(word.find('='), word.size());
    if (!same(std::string_view(word).substr(0, equals))) continue;
    if (equals < word.size()) return word.substr(equals + 1);
    return i + 1 < arguments.size() ? arguments[i + 1] : "";
  }
  return std::nullopt;
}

void AddMegatronCheckpoints(const RecipeSpec& recipe, const std::string& directory,
                            Arguments& arguments) {
  const auto save = ValueOf(arguments, "--save");
  const auto load = ValueOf(arguments, "--load");
  const bool interval = ValueOf(arguments, "--save-interval").has_value();
  // A restarted attempt continues only if it loads from where the attempt before it saved.
  const std::string place = save.value_or(directory);
  if (!save) arguments.insert(arguments.end(), {"--save", place});
  if (!load) arguments.insert(arguments.end(), {"--load", place});
  if (!interval) {
    const uint64_t steps = recipe.checkpoint_interval.value_or(kMegatronInterval);
    arguments.insert(arguments.end(), {"--save-interval", std::to_string(steps)});
  }
}

void AddTorchtitanCheckpoints(const RecipeSpec& recipe, const std::string& directory,
                              Arguments& arguments) {
  const bool off = ValueOf(arguments, "--checkpoint.no-enable").has_value();
  if (off) return;
  // tyro requires that options of a section come before the words of a subcommand, so the added
  // options come first.
  Arguments added;
  if (!ValueOf(arguments, "--checkpoint.enable")) added.push_back("--checkpoint.enable");
  if (!ValueOf(arguments, "--checkpoint.folder")) {
    added.insert(added.end(), {"--checkpoint.folder", directory});
  }
  if (recipe.checkpoint_interval && !ValueOf(arguments, "--checkpoint.interval")) {
    added.insert(added.end(),
                 {"--checkpoint.interval", std::to_string(*recipe.checkpoint_interval)});
  }
  arguments.insert(arguments.begin(), added.begin(), added.end());
}

constexpr auto kFrameworks = std::to_array<Framework>({
    {.name = "pytorch",
     .module = "",
     .step_pattern = "",
     .environment = {},
     .derived = "",
     .first_argument = "",
     .add_checkpoints = nullptr},
    {.name = "torchtitan",
     .module = "torchtitan.train",
     .step_pattern = "torchtitan",
     .environment = {{{"PYTORCH_ALLOC_CONF", "expandable_segments:True"}, {"ROLE_NAME", "rank"}}},
     .derived = "",
     .first_argument = "",
     .add_checkpoints = AddTorchtitanCheckpoints},
    {.name = "megatron",
     .module = "",
     .step_pattern = "megatron",
     .environment = {{{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}}},
     .derived = "",
     .first_argument = "",
     .add_checkpoints = AddMegatronCheckpoints},
    {.name = "deepspeed",
     .module = "",
     .step_pattern = "deepspeed",
     .environment = {},
     .derived = "CROSS_RANK=$GROUP_RANK CROSS_SIZE=$GROUP_WORLD_SIZE LOCAL_SIZE=$LOCAL_WORLD_SIZE",
     .first_argument = "--local_rank=${local_rank}",  // replaced for each worker
     .add_checkpoints = nullptr},
    {.name = "lightning",
     .module = "",
     .step_pattern = "lightning",
     .environment = {},
     .derived = "",
     .first_argument = "",
     .add_checkpoints = nullptr},
    {.name = "accelerate",
     .module = "",
     .step_pattern = "",
     .environment = {{{"ACCELERATE_MIXED_PRECISION", "no"},
                      {"ACCELERATE_DYNAMO_BACKEND", "NO"},
                      {"ACCELERATE_DYNAMO_MODE", "default"},
                      {"ACCELERATE_DYNAMO_USE_FULLGRAPH", "False"},
                      {"ACCELERATE_DYNAMO_USE_DYNAMIC", "False"},
                      {"ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION", "False"}}},
     .derived = "",
     .first_argument = "",
     .add_checkpoints = nullptr},
});

constexpr auto kNames = [] {
  std::array<std::string_view, kFrameworks.size()> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kFrameworks[i].name;
  return names;
}();

const Framework& Find(std::string_view name) {
  const auto* found = std::ranges::find(kFrameworks, name, &Framework::name);
  CHECK(found != kFrameworks.end());
  return *found;
}

}  // namespace

std::span<const std::string_view> FrameworkNames() { return kNames; }

std::string_view DefaultModule(std::string_view framework) { return Find(framework).module; }

bool HasCheckpointArguments(std::string_view framework) {
  return Find(framework).add_checkpoints != nullptr;
}

Expansion Expand(const RecipeSpec& recipe, std::string_view job_name) {
  const Framework& framework = Find(recipe.framework);
  Expansion expansion;
  Arguments& command = expansion.command;
  if (!framework.derived.empty()) {
    // exec keeps one process for each worker.
    command = {"/bin/sh", "-c",
               "export " + std::string(framework.derived) + "; exec \"$0\" \"$@\""};
  }
  command.insert(command.end(), {recipe.python, "-u"});
  if (!recipe.script.empty()) {
    command.push_back(recipe.script);
  } else {
    command.push_back("-m");
    command.push_back(recipe.module.empty() ? std::string(framework.module) : recipe.module);
  }
  if (!framework.first_argument.empty()) command.emplace_back(framework.first_argument);
  Arguments arguments = recipe.args;
  if (framework.add_checkpoints != nullptr) {
    const std::string directory = recipe.checkpoint_directory.empty()
                                      ? "checkpoints/" + std::string(job_name)
                                      : recipe.checkpoint_directory;
    framework.add_checkpoints(recipe, directory, arguments);
  }
  command.insert(command.end(), arguments.begin(), arguments.end());
  for (const auto& [name, value] : framework.environment) {
    if (!name.empty()) expansion.environment.emplace(name, value);
  }
  expansion.step_pattern = framework.step_pattern;
  return expansion;
}

}  // namespace longhaul::spec
