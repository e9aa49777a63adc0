#include "bin/tools/trace_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"
#include "scheduler/workload/simulation.h"

namespace longhaul::bin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kSacct =
    "JobID|User|Account|State|Submit|Elapsed|Timelimit|ReqTRES\n"
    "1|ann|vision|COMPLETED|2026-01-03T10:00:00|01:00:00|02:00:00|cpu=8,gres/gpu:h100=8,node=1\n"
    "2|bob|speech|COMPLETED|2026-01-03T10:00:05|01:00:00|02:00:00|cpu=8,gres/gpu:h100=8,node=1\n";
constexpr const char* kPhilly =
    "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,60,8,480,a\n"
    "2017-11-09 07:01:55,60,8,480,a\n";
constexpr const char* kOpenb =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"
    "p,1000,1024,1,500,V100,10,20\n";
constexpr const char* kDlrm =
    "instance_sn,role,app_name,cpu_request,gpu_request,rdma_request,memory_request,disk_request,"
    "max_instance_per_node,creation_time,deletion_time\ni,HN,app,12,1,25,120,640,8,5,9\n";

class TraceInputTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  const TemporaryFolder folder_{testing::TempDir()};
};

TEST_F(TraceInputTest, TheFirstLineShowsTheFormat) {
  const struct {
    const char* text;
    const char* format;
  } kRows[] = {{kSacct, "sacct"}, {kPhilly, "philly"}, {kOpenb, "openb"}, {kDlrm, "dlrm"}};
  for (const auto& row : kRows) {
    const auto input = ReadTrace(Write("trace", row.text), "auto", "");
    ASSERT_TRUE(input.ok()) << input.status();
    EXPECT_EQ(input->format, row.format);
    EXPECT_EQ(input->jobs[0].arrival_ms, 0);
  }
}

TEST_F(TraceInputTest, AnUnknownFirstLineIsRefusedWithTheFormats) {
  const auto input = ReadTrace(Write("trace", "a,b\n1,2\n"), "auto", "");
  EXPECT_THAT(input.status().message(), HasSubstr("philly, openb, dlrm, sacct, pollux"));
  EXPECT_THAT(input.status().message(), HasSubstr("'a,b'"));
}

TEST_F(TraceInputTest, AFormatThatIsNamedIsUsed) {
  const auto input = ReadTrace(Write("trace", kPhilly), "sacct", "");
  EXPECT_THAT(input.status().message(), HasSubstr("the header lacks the column 'Submit'"));
}

TEST_F(TraceInputTest, AMonthKeepsItsJobsAlone) {
  EXPECT_EQ(ReadTrace(Write("trace", kPhilly), "auto", "2017-11")->jobs.size(), 1u);
  const auto none = ReadTrace(Write("trace", kSacct), "auto", "2017-11");
  EXPECT_THAT(none.status().message(), HasSubstr("has no job in 2017-11"));
}

TEST_F(TraceInputTest, WithoutAClusterFileModelsAndCountedResourcesAreDropped) {
  for (const char* text : {kSacct, kDlrm}) {
    auto input = ReadTrace(Write("trace", text), "auto", "");
    ASSERT_TRUE(input.ok()) << input.status();
    DropUndeclaredNeeds(*input);
    EXPECT_THAT(input->jobs[0].task.models, IsEmpty());
    EXPECT_THAT(input->jobs[0].task.counted, IsEmpty());
    EXPECT_THAT(input->notes, ElementsAre(HasSubstr("may use any device model")));
  }
}

TEST_F(TraceInputTest, AClusterIsAClusterFileOrOpenbsListOfNodes) {
  const auto file = ReadTraceCluster(Write("cluster.yaml", R"(
models: {h100: {memory: 80GiB}}
kinds: {host: {model: h100, devices: 8, cpu: 96, memory: 1TiB}}
nodes: [{kind: host, name: n}]
)"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->nodes.size(), 1u);
  const auto list =
      ReadTraceCluster(Write("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\na,1000,1,2,V100\n"));
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->models[0].name, "V100");
  EXPECT_FALSE(ReadTraceCluster(Write("bad.yaml", "nodes: 3\n")).ok());
}

TEST_F(TraceInputTest, APolluxWorkloadTakesItsDurationsFromTheMeasuredTimes) {
  const std::string list =
      Write("list", "name,time,application,num_replicas,batch_size\na-0,5,app,1,8\n");
  EXPECT_THAT(ReadTrace(list, "auto", "").status().message(),
              HasSubstr("name the folder of its measured times with --measured"));
  const auto missing = ReadTrace(list, "auto", "", folder_.path()).status();
  EXPECT_THAT(missing.message(), HasSubstr("/app/placements.csv"));
  std::filesystem::create_directory(folder_.path() + "/app");
  Write("app/placements.csv", "placement,local_bsz,step_time,sync_time\n1,8,0.5,0\n");
  Write("app/scalability.csv", "num_nodes,num_replicas,local_bsz,step_time,sync_time\n");
  Write("app/validation-8.csv", "progress,iteration\n7.0,7\n14.5,14\n");
  const auto input = ReadTrace(list, "auto", "", folder_.path());
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_EQ(input->format, "pollux");
  EXPECT_EQ(input->jobs[0].duration_ms, 7'000);
  EXPECT_THAT(input->notes, ElementsAre(HasSubstr("keeps its number of GPUs and its batch")));
  EXPECT_THAT(ReadTrace(Write("trace", kPhilly), "auto", "", folder_.path()).status().message(),
              HasSubstr("--measured is for the format pollux"));
}

// Two jobs of 8 GPUs of the model on one host of 8: the second waits for the first.
TEST_F(TraceInputTest, ASacctExportRunsOnItsCluster) {
  using namespace scheduler::workload;  // NOLINT
  const auto input = ReadTrace(Write("trace", kSacct), "auto", "");
  const auto cluster = ReadTraceCluster(Write("cluster.yaml", R"(
models: {h100: {memory: 80GiB}, v100: {memory: 16GiB}}
kinds:
  new: {model: h100, devices: 8, cpu: 96, memory: 1TiB}
  old: {model: v100, devices: 8, cpu: 96, memory: 1TiB}
nodes: [{kind: new, name: a}, {kind: old, name: b}]
)"));
  ASSERT_TRUE(input.ok() && cluster.ok()) << input.status() << cluster.status();
  SimulationOptions options;
  options.foresight = Foresight::kLimit;
  const auto result = Simulate(*cluster, input->jobs, StandardContenders()[0], options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->rejected, 0u);
  EXPECT_DOUBLE_EQ(result->largest_wait_s, 3'595);
}

}  // namespace
}  // namespace longhaul::bin
