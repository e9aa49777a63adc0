#include "frontend/job_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "frontend/run_directory.h"

namespace longhaul::frontend {
namespace {

using ::testing::HasSubstr;

class JobRequestTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "request-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    directory_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
};

TEST_F(JobRequestTest, MakesARecipeOfAScriptOrAModule) {
  JobRequest request;
  request.framework = "megatron";
  request.command = {"/opt/python3", "-u", "pretrain_gpt.py", "--bf16"};
  const auto job = LoadJob(request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name, "pretrain_gpt");
  EXPECT_THAT(DescribeCommand(*job),
              HasSubstr("command: /opt/python3 -u pretrain_gpt.py --bf16 --save "
                        "checkpoints/pretrain_gpt --load checkpoints/pretrain_gpt "
                        "--save-interval 1000\n"));
  EXPECT_THAT(DescribeCommand(*job), HasSubstr("environment: CUDA_DEVICE_MAX_CONNECTIONS=1\n"));
  request.framework = "torchtitan";
  request.command = {"python3", "-u", "-m", "torchtitan.train", "--module", "llama3"};
  const auto module = LoadJob(request);
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ(module->recipe.module, "torchtitan.train");
}

TEST_F(JobRequestTest, TheNameFromTheCommandLineNamesTheCheckpointsOfARecipe) {
  const std::string path = directory_ + "/job.yaml";
  std::ofstream(path) << "framework: megatron\nscript: p.py\n";
  JobRequest request;
  request.file = path;
  request.name = "other";
  request.set = {"args=[\"--bf16\"]", "resources.nodes=1", "resources.processes_per_node=4"};
  const auto job = LoadJob(request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(DescribeCommand(*job), HasSubstr("workers: 1 node x 4 processes\n"));
  EXPECT_THAT(DescribeCommand(*job), HasSubstr("p.py --bf16 --save checkpoints/other"));
}

TEST_F(JobRequestTest, RefusesAFrameworkWithoutAScript) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"./train.sh"}, {"python3"}, {"python3", "-c", "pass"}}) {
    JobRequest request;
    request.framework = "pytorch";
    request.command = command;
    EXPECT_THAT(LoadJob(request).status().message(), HasSubstr("needs a script or a module"));
  }
}

TEST_F(JobRequestTest, MakesAJobOfACommand) {
  JobRequest request;
  request.command = {"python3", "-u", "/x/train ddp.py", "--lr", "3"};
  request.nodes = 2;
  request.processes_per_node = 2;
  request.inject = "kill worker 1 at step 40";
  const auto job = LoadJob(request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name, "train-ddp");
  EXPECT_EQ(job->command, request.command);
  EXPECT_EQ(job->resources.nodes, 2u);
  EXPECT_EQ(job->working_directory, std::filesystem::current_path().string());
  EXPECT_EQ(job->faults.size(), 1u);
}

TEST_F(JobRequestTest, ACommandOfAFileStartsHereOrWhereTheAgentsAre) {
  JobRequest request;
  request.file = directory_ + "/job.json";
  std::ofstream(request.file) << R"({"name": "x", "command": ["train"]})";
  EXPECT_EQ(LoadJob(request)->working_directory, std::filesystem::current_path().string());
  request.starts_here = false;
  EXPECT_EQ(LoadJob(request)->working_directory, "");
}

TEST_F(JobRequestTest, TellsWhatIsWrongWithItsInput) {
  JobRequest request;
  request.file = directory_ + "/absent.yaml";
  EXPECT_THAT(LoadJob(request).status().message(), HasSubstr("no job file " + request.file));
  request.file = directory_;
  EXPECT_THAT(LoadJob(request).status().message(), HasSubstr("is a directory"));
  request = JobRequest();
  request.command = {"true"};
  request.inject = "kill everybody";
  EXPECT_THAT(LoadJob(request).status().message(), HasSubstr("--inject"));
  request.inject.clear();
  request.set = {"max_restart=1"};
  EXPECT_THAT(LoadJob(request).status().message(), HasSubstr("max_restarts"));
  request.set = {"=1"};
  EXPECT_THAT(LoadJob(request).status().message(), HasSubstr("--set requires KEY=VALUE"));
}

TEST_F(JobRequestTest, PutsSettingsIntoTheJob) {
  EXPECT_EQ(*ApplySettings(R"({"a":{"b":1},"c":"x"})", {"a.b=20", "c=text", "d.e=[1,2]"}),
            R"({"a":{"b":20},"c":"text","d":{"e":[1,2]}})");
  EXPECT_FALSE(ApplySettings(R"({"a":1})", {"a.b=2"}).ok());
}

TEST_F(JobRequestTest, TellsAPlaceAsOthersCanUseIt) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(WholePlace(""), "");
  EXPECT_EQ(WholePlace("runs/../runs/base"), here + "/runs/base");
  EXPECT_EQ(WholePlace("/runs/base"), "/runs/base");
  EXPECT_EQ(WholePlace("s3://models/runs/../base"), "s3://models/runs/../base");
}

TEST_F(JobRequestTest, NamesACommandAfterItsScript) {
  EXPECT_EQ(NameOfCommand({"/usr/bin/true"}), "true");
  EXPECT_EQ(NameOfCommand({"python3", "a/b.train.py"}), "b.train");
  EXPECT_EQ(NameOfCommand({".hidden"}), "hidden");
  EXPECT_EQ(NameOfCommand({"_train.py"}), "train");
  EXPECT_EQ(NameOfCommand({"-"}), "job");
  EXPECT_EQ(NameOfCommand({}), "job");
}

TEST_F(JobRequestTest, NeverMixesTwoRunsInADirectory) {
  const std::string path = directory_ + "/runs/x";
  EXPECT_EQ(MakeRunDirectory(path, "x", false)->path, path);
  EXPECT_EQ(MakeRunDirectory(path, "x", false)->path, path);  // still empty
  std::ofstream(path + "/report.md") << "x";
  EXPECT_EQ(MakeRunDirectory(path, "x", false)->path, path + "-2");
  EXPECT_EQ(MakeRunDirectory(path + "/", "x", true)->path, path);
  EXPECT_TRUE(MakeRunDirectory(path, "x", true)->had_content);
}

TEST_F(JobRequestTest, KeepsAnEarlierClustersFiles) {
  const std::string cluster = *MakeClusterDirectory(directory_);
  std::ofstream(cluster + "/controller.log") << "x";
  EXPECT_EQ(*MakeClusterDirectory(directory_), cluster);
  EXPECT_TRUE(std::filesystem::is_empty(cluster));
  EXPECT_TRUE(std::filesystem::exists(cluster + ".1/controller.log"));
}

TEST_F(JobRequestTest, ARunDirectoryHasOneOwner) {
  const std::string path = directory_ + "/runs/owned";
  const auto first = MakeRunDirectory(path, "x", false);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(MakeRunDirectory(path, "x", false)->path, path + "-2") << "empty, but in use";
  const Status refused = MakeRunDirectory(path, "x", true, Duration(0)).status();
  EXPECT_EQ(refused.code(), Code::kAlreadyExists);
  EXPECT_NE(refused.message().find(path + " is in use by longhaul run, process " +
                                   std::to_string(getpid())),
            std::string::npos)
      << refused;
}

}  // namespace
}  // namespace longhaul::frontend
