#include "spec/job/framework.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "spec/job/job.h"
#include "spec/job/step_pattern.h"

namespace longhaul::spec {
namespace {

std::string Line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

std::string CommandOf(const std::string& yaml) {
  const auto job = ParseJob("name: tune\n" + yaml, "job.yaml");
  return job.ok() ? Line(job->command) : job.status().message();
}

TEST(Framework, MakesTheCommandOfEachFramework) {
  const struct {
    const char* yaml;
    const char* want;
  } kRows[] = {
      {"framework: pytorch\nscript: train.py\nargs: [--a, b]", "python3 -u train.py --a b"},
      {"framework: pytorch\nmodule: my.train\npython: /opt/bin/python",
       "/opt/bin/python -u -m my.train"},
      {"framework: lightning\nscript: fit.py", "python3 -u fit.py"},
      {"framework: accelerate\nscript: fit.py\nargs: [x]", "python3 -u fit.py x"},
      {"framework: deepspeed\nscript: t.py\nargs: [--deepspeed]",
       "/bin/sh -c export CROSS_RANK=$GROUP_RANK CROSS_SIZE=$GROUP_WORLD_SIZE "
       "LOCAL_SIZE=$LOCAL_WORLD_SIZE; exec \"$0\" \"$@\" "
       "python3 -u t.py --local_rank=${local_rank} --deepspeed"},
      {"framework: megatron\nscript: p.py\nargs: [--bf16]",
       "python3 -u p.py --bf16 --save checkpoints/tune --load checkpoints/tune "
       "--save-interval 1000"},
      {"framework: megatron\nscript: p.py\ncheckpoint_directory: /c\ncheckpoint_interval: 50",
       "python3 -u p.py --save /c --load /c --save-interval 50"},
      {"framework: torchtitan\nargs: [--module, llama3]",
       "python3 -u -m torchtitan.train --checkpoint.enable --checkpoint.folder checkpoints/tune "
       "--module llama3"},
      {"framework: torchtitan\nmodule: mine.train\ncheckpoint_interval: 7",
       "python3 -u -m mine.train --checkpoint.enable --checkpoint.folder checkpoints/tune "
       "--checkpoint.interval 7"},
  };
  for (const auto& row : kRows) EXPECT_EQ(CommandOf(row.yaml), row.want) << row.yaml;
}

TEST(Framework, KeepsTheCheckpointArgumentsOfTheUser) {
  const struct {
    const char* yaml;
    const char* want;
  } kRows[] = {
      // What is saved in another place is loaded from there.
      {"framework: megatron\nscript: p.py\nargs: [--save, /s, --save-interval=9]",
       "python3 -u p.py --save /s --save-interval=9 --load /s"},
      {"framework: megatron\nscript: p.py\nargs: [--save=/s, --load, /l, --save-interval, 9]",
       "python3 -u p.py --save=/s --load /l --save-interval 9"},
      {"framework: torchtitan\nargs: [--checkpoint.folder=f, --checkpoint.enable]",
       "python3 -u -m torchtitan.train --checkpoint.folder=f --checkpoint.enable"},
      {"framework: torchtitan\nargs: [--checkpoint.no_enable]",
       "python3 -u -m torchtitan.train --checkpoint.no_enable"},
  };
  for (const auto& row : kRows) EXPECT_EQ(CommandOf(row.yaml), row.want) << row.yaml;
}

TEST(Framework, FillsInTheEnvironmentAndThePatternThatTheJobDoesNotSet) {
  const auto job = ParseJob("framework: megatron\nscript: p.py\n", "j.yaml");
  ASSERT_TRUE(job.ok()) << job.status().message();
  EXPECT_EQ(job->environment.at("CUDA_DEVICE_MAX_CONNECTIONS"), "1");
  EXPECT_EQ(job->step_pattern, "megatron");
  const auto own = ParseJob(
      "framework: megatron\nscript: p.py\nstep_pattern: ''\n"
      "environment: {CUDA_DEVICE_MAX_CONNECTIONS: '32'}\n",
      "j.yaml");
  ASSERT_TRUE(own.ok()) << own.status().message();
  EXPECT_EQ(own->environment.at("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
  EXPECT_EQ(own->step_pattern, "");
}

TEST(Framework, NamesOnlyPatternsThatExist) {
  for (const std::string_view name : FrameworkNames()) {
    RecipeSpec recipe;
    recipe.framework = name;
    recipe.script = "t.py";
    const Expansion expansion = Expand(recipe, "name");
    if (expansion.step_pattern.empty()) continue;
    const auto pattern = StepPattern::Parse(expansion.step_pattern);
    ASSERT_TRUE(pattern.ok()) << name;
    EXPECT_NE(pattern->expression(), expansion.step_pattern) << "not a preset";
  }
}

// Another name, as by --name, gives another place for the checkpoints.
TEST(Framework, IsWrittenAsARecipeAndReadBack) {
  for (const std::string_view name : FrameworkNames()) {
    const auto job =
        ParseJob("name: a\nscript: t.py\nargs: [x]\nframework: " + std::string(name), "j.yaml");
    ASSERT_TRUE(job.ok()) << job.status().message();
    const auto again = ParseJob(ToJson(*job), "j.json");
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, *job) << name;
    EXPECT_EQ(ToYaml(*job).find("command:"), std::string::npos);
  }
}

TEST(Framework, RefusesWhatHasNoMeaning) {
  const std::string all = "pytorch, torchtitan, megatron, deepspeed, lightning, accelerate";
  const std::pair<const char*, std::string> kRows[] = {
      {"framework: megatorn\nscript: p.py",
       "job.yaml:2: framework: 'megatorn' is unknown, did you mean 'megatron'; known here: " + all},
      {"framework: jax\nscript: p.py",
       "job.yaml:2: framework: 'jax' is unknown; known here: " + all},
      {"framework: pytorch\ncommand: [a]", "job.yaml:3: command: cannot stand beside 'framework'"},
      {"framework: pytorch", "job.yaml:2: framework: pytorch needs the program to train with"},
      {"framework: pytorch\nscript: a\nmodule: b", "job.yaml:4: module: cannot stand beside"},
      {"framework: pytorch\nscript: a\npython: ''", "job.yaml:4: python: must not be empty"},
      {"framework: lightning\nscript: a\ncheckpoint_directory: /c",
       "job.yaml:4: checkpoint_directory: is for frameworks that have arguments for it"},
      {"framework: pytorch\nscript: a\nmodel: {layers: 1}",
       "job.yaml:4: model: is for the built-in trainer and has no effect beside 'framework'"},
      {"command: [a]\nargs: [b]", "job.yaml:3: args: needs 'framework' beside it: " + all},
  };
  for (const auto& [yaml, want] : kRows) {
    const std::string got = CommandOf(yaml);
    EXPECT_EQ(got.substr(0, want.size()), want) << yaml;
  }
}

}  // namespace
}  // namespace longhaul::spec
