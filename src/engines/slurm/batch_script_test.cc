#include "engines/slurm/batch_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace longhaul::engines::slurm {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

BatchOptions Options() {
  BatchOptions options;
  options.program = "/opt/longhaul/bin/longhaul";
  options.run_directory = "/home/u/runs/it's";
  options.name = "gpt $(reboot)";
  options.nodes = 4;
  options.workers = 8;
  options.words = {"/home/u/gpt.yaml", "--set", "train.steps=5"};
  options.settings = {"--partition=gpu", "--time=2:00:00"};
  return options;
}

TEST(BatchScript, QuotesWhatAShellWouldRead) {
  const std::pair<const char*, const char*> kRows[] = {{"plain-1.0/x=y:z", "plain-1.0/x=y:z"},
                                                       {"", "''"},
                                                       {"two words", "'two words'"},
                                                       {"it's", "'it'\\''s'"},
                                                       {"$(x)`y`", "'$(x)`y`'"},
                                                       {"a\nb", "'a\nb'"}};
  for (const auto& [word, quoted] : kRows) EXPECT_EQ(ShellQuoted(word), quoted);
}

TEST(BatchScript, TheFirstJobKeepsItsNodesAndIsRequeued) {
  const std::vector<std::string> arguments = FirstJobArguments(Options());
  for (const char* wanted : {"--no-kill", "--requeue", "--nodes=4", "--signal=B:USR1@120",
                             "--job-name=longhaul-gpt---reboot-"}) {
    EXPECT_THAT(arguments, Contains(wanted));
  }
  EXPECT_EQ(arguments.back(), "--time=2:00:00") << "the user's options win";
  EXPECT_THAT(FirstJobScript(Options()),
              HasSubstr("exec /opt/longhaul/bin/longhaul slurm batch '/home/u/runs/it'\\''s' "
                        "--sbatch=--partition=gpu --sbatch=--time=2:00:00 -- "
                        "/home/u/gpt.yaml --set train.steps=5\n"));
}

TEST(BatchScript, AFurtherJobHasAgentsAlone) {
  BatchOptions options = Options();
  options.settings.push_back("--exclude=bad[1-2]");
  const std::vector<std::string> arguments = FurtherJobArguments(options, 1, {"n1", "n2"});
  EXPECT_THAT(arguments, Contains("--exclude=n1,n2,bad[1-2]")) << "one agent a node";
  EXPECT_THAT(arguments, Contains("--nodes=1"));
  EXPECT_THAT(arguments, Contains("--no-requeue"));
  EXPECT_THAT(arguments, Contains("--partition=gpu"));
  const std::string script = FurtherJobScript(Options());
  EXPECT_THAT(script, HasSubstr("exec srun "));
  EXPECT_THAT(script, HasSubstr("slurm agent"));
  EXPECT_THAT(script, HasSubstr("--slots 8"));
  EXPECT_THAT(script, Not(HasSubstr("slurm batch")));
}

}  // namespace
}  // namespace longhaul::engines::slurm
