#include "service/agent/python/python_fork_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace longhaul::service {
namespace {

using Words = std::vector<std::string>;

std::optional<PythonProgram> Parse(const Words& words) { return ParsePythonProgram(words); }

TEST(PythonProgram, IsAScriptOrAModuleWithItsOptions) {
  const struct {
    Words interpreter;
    Words words;
  } kRows[] = {
      {{"python3"}, {"train.py"}},
      {{"/venv/bin/python"}, {"train.py", "-c", "x"}},
      {{"python3.12", "-u"}, {"a b.py", "--x"}},
      {{"python3", "-uOO", "-X", "dev", "-Werror", "-W", "-m"}, {"train.py"}},
      {{"python3", "-Xdev"}, {"-m", "pkg.train", "--x"}},
  };
  for (const auto& row : kRows) {
    Words all = row.interpreter;
    all.insert(all.end(), row.words.begin(), row.words.end());
    EXPECT_EQ(Parse(all), (PythonProgram{row.interpreter, row.words})) << all.back();
  }
}

TEST(PythonProgram, OtherCommandsHaveNoForkServer) {
  const Words kRows[] = {
      {},
      {"python3"},
      {"python3", "-u"},
      {"python3", "-m"},
      {"python3", "-X"},
      {"python3", ""},
      {"python3", "-"},
      {"python3", "-c", "pass"},
      {"python3", "-i", "train.py"},
      {"python3", "-x", "train.py"},
      {"python3", "-I", "train.py"},
      {"python3", "--version", "train.py"},
      {"python3-config", "train.py"},
      {"pythonw", "train.py"},
      {"./train.py"},
      {"numactl", "python3", "train.py"},
  };
  for (const Words& row : kRows) {
    EXPECT_EQ(Parse(row), std::nullopt) << (row.empty() ? "nothing" : row.back());
  }
}

TEST(PythonForkServer, IsNoWorkerAndHasRoomForTheWordsOfOne) {
  const PythonProgram program{{"python3", "-u"}, {"train.py", "--x", "y"}};
  const ForkServerCommand command = PythonForkServer(
      program, {{"RANK", "3"}, {"LOCAL_RANK", "1"}, {"HOME", "/h"}, {"OPENBLAS_NUM_THREADS", "8"}},
      "/work", {"/packages"}, "/runs/a/modules");
  EXPECT_EQ(command.working_directory, "/work");
  ASSERT_GE(command.argv.size(), 4u);
  EXPECT_EQ((Words{command.argv.begin(), command.argv.begin() + 3}),
            (Words{"python3", "-u", "-c"}));
  EXPECT_GE(command.argv.back().size(), std::string("python3 -u train.py --x y ").size());
  EXPECT_FALSE(command.environment.contains("RANK"));
  EXPECT_FALSE(command.environment.contains("LOCAL_RANK"));
  EXPECT_EQ(command.environment.at("HOME"), "/h");
  EXPECT_EQ(command.environment.at("OPENBLAS_NUM_THREADS"), "1");
  const auto setup = nlohmann::json::parse(command.environment.at("LONGHAUL_FORK_SERVER"));
  EXPECT_EQ(setup.at("words"), program.words);
  EXPECT_EQ(setup.at("self"), command.argv);
  EXPECT_EQ(setup.at("packages"), (Words{"/packages"}));
  EXPECT_EQ(setup.at("modules"), "/runs/a/modules");
}

TEST(PythonForkServer, IsOffByItsVariable) {
  EXPECT_FALSE(ForkServerIsOff({}));
  EXPECT_FALSE(ForkServerIsOff({{"LONGHAUL_FORK_SERVER", "1"}}));
  EXPECT_TRUE(ForkServerIsOff({{"LONGHAUL_FORK_SERVER", "0"}}));
}

}  // namespace
}  // namespace longhaul::service
