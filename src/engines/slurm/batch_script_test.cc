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
  options.size.parts = {4};
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
  const std::vector<std::string> arguments =
      FurtherJobArguments(options, {0, 1, false}, {"n1", "n2"});
  EXPECT_THAT(arguments, Contains("--exclude=n1,n2,bad[1-2]")) << "one agent a node";
  EXPECT_THAT(arguments, Contains("--nodes=1"));
  EXPECT_THAT(arguments, Contains("--no-requeue"));
  EXPECT_THAT(arguments, Contains("--partition=gpu"));
  EXPECT_THAT(arguments, Contains("--comment=longhaul part-1 /home/u/runs/it's"));
  const std::string script = FurtherJobScript(Options());
  EXPECT_THAT(script, HasSubstr("exec srun "));
  EXPECT_THAT(script, HasSubstr("slurm agent"));
  EXPECT_THAT(script, HasSubstr("--slots 8"));
  EXPECT_THAT(script, Not(HasSubstr("slurm batch")));
}

TEST(BatchScript, EachPartHasItsOwnOptionsOfSbatch) {
  BatchOptions options = Options();
  options.parts = {{2, {"--constraint=h100"}}, {1, {"--partition=old", "--exclude=bad9"}}};
  options.size.parts = {2, 1};
  options.size.maximum = 5;
  const std::vector<std::string> first = FirstJobArguments(options);
  EXPECT_THAT(first, Contains("--nodes=2"));
  EXPECT_THAT(first, Contains("--comment=longhaul first /home/u/runs/it's"));
  EXPECT_EQ(first.back(), "--constraint=h100");
  const std::vector<std::string> second = FurtherJobArguments(options, {1, 1, false}, {"n1"});
  EXPECT_EQ(second[second.size() - 2], "--partition=old") << "after that of the whole run";
  EXPECT_THAT(second, Contains("--exclude=n1,bad9"));
  EXPECT_THAT(second, Contains("--comment=longhaul part-2 /home/u/runs/it's"));
  EXPECT_THAT(second, Not(Contains("--constraint=h100")));
  EXPECT_THAT(second, Not(Contains(HasSubstr("--nice"))));
  // The growth has the kind of the last part, unless it has its own.
  const std::vector<std::string> grown = FurtherJobArguments(options, {2, 2, true}, {});
  EXPECT_THAT(grown, Contains("--partition=old"));
  EXPECT_THAT(grown, Contains("--nodes=2"));
  EXPECT_THAT(grown, Contains("--nice=10000"));
  EXPECT_THAT(grown, Contains("--comment=longhaul growth /home/u/runs/it's"));
  options.growth = {"--qos=spare"};
  EXPECT_EQ(FurtherJobArguments(options, {2, 2, true}, {}).back(), "--qos=spare");
  EXPECT_THAT(FurtherJobArguments(options, {2, 2, true}, {}), Not(Contains("--partition=old")));
  options.start_limit = std::chrono::seconds(5);
  EXPECT_THAT(FirstJobScript(options),
              HasSubstr("'--part=--nodes=2 --constraint=h100' "
                        "'--part=--nodes=1 --partition=old --exclude=bad9' --grow=--qos=spare "
                        "--start-limit=5000000000ns -- "));
}

}  // namespace
}  // namespace longhaul::engines::slurm
