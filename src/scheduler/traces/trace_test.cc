#include "scheduler/traces/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/traces/csv_reader.h"

namespace longhaul::scheduler {
namespace {

using ::testing::HasSubstr;

TEST(CsvReader, TakesColumnsByNameInAnyOrder) {
  CsvReader rows = *CsvReader::Open("b,a,x\r\n1,2,3\n\n4,5,6", "t.csv", {"a", "b"}, {"c", "x"});
  ASSERT_TRUE(rows.Next());
  EXPECT_EQ(*rows.Whole(0, 0, 9), 2);
  EXPECT_EQ(*rows.Whole(1, 0, 9), 1);
  EXPECT_EQ(rows.Field(2), "");
  EXPECT_EQ(rows.Field(3), "3");
  ASSERT_TRUE(rows.Next());
  EXPECT_EQ(rows.Field(3), "6");
  EXPECT_FALSE(rows.Next());
  EXPECT_TRUE(rows.status().ok());
}

TEST(CsvReader, SaysWhereAMistakeIs) {
  const struct {
    const char* text;
    const char* message;
  } kRows[] = {
      {"a\n1", "t.csv:1:1: the header lacks the column 'b'; it has: a"},
      {"", "t.csv:1:1: the header lacks the column 'a'"},
      {"a,b\n1,2\n1,2,3", "t.csv:3:6: the row has 3 fields where the header has 2"},
      {"a,b\n1,x", "t.csv:2:3: b: 'x' is not a whole number"},
      {"a,b\n1,", "t.csv:2:3: b: '' is not a whole number"},
      {"a,b\n1,10", "t.csv:2:3: b: 10 is out of range: 0 to 9"},
      {"a,b\n1,99999999999999999999", "t.csv:2:3: b: 99999999999999999999 is out of range"},
      {"a,b\n1,\"2\"", "t.csv:2:3: quoted fields"},
  };
  for (const auto& row : kRows) {
    auto rows = CsvReader::Open(row.text, "t.csv", {"a", "b"});
    Status status = rows.ok() ? Status() : rows.status();
    while (status.ok() && rows->Next()) status = rows->Whole(1, 0, 9).status();
    if (status.ok()) status = rows->status();
    EXPECT_THAT(status.message(), HasSubstr(row.message)) << row.text;
  }
}

TEST(CsvReader, BoundsLinesAndRoundsThousandthsDown) {
  const std::string text = "a\n" + std::string(5'000, '1');
  CsvReader rows = *CsvReader::Open(text, "t.csv", {"a"});
  EXPECT_FALSE(rows.Next());
  EXPECT_THAT(rows.status().message(), HasSubstr("t.csv:2:1: the line has 5000 bytes"));
  CsvReader numbers = *CsvReader::Open("a\n2.5\n66.0\n0.0019\n-1\nnan\n1e300", "t.csv", {"a"});
  std::vector<std::string> read;
  while (numbers.Next()) {
    const auto number = numbers.Thousandths(0, 1'000'000);
    read.push_back(number.ok() ? std::to_string(*number) : "refused");
  }
  EXPECT_EQ(read,
            (std::vector<std::string>{"2500", "66000", "1", "refused", "refused", "refused"}));
}

TEST(Openb, ReadsNodesOfEqualMakeAsOneKind) {
  const auto cluster = *ReadOpenbNodes(
      "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,96000,393216,8,G2\n"
      "n2,64000,262144,2,P100\nn3,32000,1024,0,\n",
      "nodes.csv");
  EXPECT_EQ(cluster.kinds.size(), 3u);
  EXPECT_EQ(cluster.models.size(), 2u);
  const spec::Topology topology = *spec::Topology::Create(cluster);
  EXPECT_EQ(topology.kind_of(2).devices.size(), 2u);
  EXPECT_EQ(topology.kind_of(3).devices.size(), 0u);
  EXPECT_EQ(topology.node(3).name, "n3");
}

TEST(Openb, ReadsTasksWithAndWithoutTheirOptionalColumns) {
  const auto jobs = *ReadOpenbTasks(
      "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
      "deletion_time,scheduled_time\np0,12000,16384,1,1000,,LS,Running,0,125,0\n"
      "p1,6000,12288,1,460,V100M16|T4,LS,Running,7,9,8\np2,6000,0,0,0,,LS,Running,7,,8\n",
      "pods.csv");
  ASSERT_EQ(jobs.size(), 3u);
  EXPECT_EQ(jobs[0].task.gpus, 1u);
  EXPECT_EQ(jobs[0].duration_ms, 125'000);
  EXPECT_EQ(jobs[1].task.share_milli, 460u);
  EXPECT_EQ(jobs[1].task.models, (std::set<std::string>{"T4", "V100M16"}));
  EXPECT_EQ(jobs[1].arrival_ms, 7'000);
  EXPECT_EQ(jobs[2].task.gpus + jobs[2].task.share_milli, 0u);
  EXPECT_EQ(jobs[2].duration_ms, std::nullopt);
  EXPECT_EQ(ReadOpenbTasks("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,8,1000", "p")
                ->front()
                .task.gpus,
            8u);
}

TEST(Openb, RefusesTasksThatContradictThemselves) {
  const struct {
    const char* row;
    const char* message;
  } kRows[] = {
      {"p,1,1,2,500,,,", "pods.csv:2:9: gpu_milli: a share needs num_gpu to be 1"},
      {"p,1,1,1,0,,,", "gpu_milli: a task with a GPU"},
      {"p,1,1,17,1000,,,", "num_gpu: 17 is out of range"},
      {"p,-1,1,1,1000,,,", "cpu_milli: -1 is out of range"},
      {"p,1,1,1,1000,T4|,,", "gpu_spec: has an empty model"},
      {"p,1,1,1,1000,,9,8", "pods.csv:2:17: deletion_time: is before the creation"},
  };
  for (const auto& row : kRows) {
    const std::string text =
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n" +
        std::string(row.row);
    EXPECT_THAT(ReadOpenbTasks(text, "pods.csv").status().message(), HasSubstr(row.message));
  }
}

TEST(Philly, SortsByTimeAndSplitsGangsIntoHosts) {
  const auto jobs = *ReadPhilly(
      "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,b\n"
      "2017-10-09 06:13:03,2951.5,24,1,a\n2017-10-10 06:13:03,1,12,1,a\n2017-10-09 "
      "06:13:03,1,8,1,c",
      "philly.csv");
  ASSERT_EQ(jobs.size(), 4u);
  EXPECT_EQ(jobs[0].tenant, "a");
  EXPECT_EQ(jobs[0].tasks, 3u);
  EXPECT_EQ(jobs[0].task.gpus, 8u);
  EXPECT_EQ(jobs[0].duration_ms, 2'951'500);
  EXPECT_EQ(jobs[1].tenant, "c");
  EXPECT_EQ(jobs[2].arrival_ms, 2'932'000);
  EXPECT_EQ(jobs[3].tasks, 3u);
  EXPECT_EQ(jobs[3].task.gpus, 4u);
}

TEST(Philly, RefusesWhatIsNoTime) {
  for (const char* time : {"2017-13-09 07:01:55", "2017-02-30 07:01:55", "2017-10-09 24:01:55",
                           "2017-10-09T07:01:55", "x", ""}) {
    const std::string text = "timestamp,duration,num_gpus,cluster\n" + std::string(time) + ",1,1,a";
    EXPECT_THAT(ReadPhilly(text, "p.csv").status().message(), HasSubstr("p.csv:2:1: timestamp:"))
        << time;
  }
  EXPECT_THAT(ReadPhilly("timestamp,duration,num_gpus,cluster\n2017-10-09 07:01:55,1,9,a", "p.csv")
                  .status()
                  .message(),
              HasSubstr("multiple of 4"));
}

TEST(Dlrm, ReadsSharesOfANicAndTheDensityCap) {
  const auto jobs = *ReadDlrm(
      "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,"
      "rdma_limit,memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,"
      "creation_time,scheduled_time,deletion_time\n"
      "i0,HN,app_0,12,12,1,1,25,25,120.5,120.0,640.0,800.0,8,7,,\n"
      "i1,CN,app_0,12.5,12,0,0,1,25,1,120.0,640.5,800.0,-1,,,9\n",
      "dlrm.csv");
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].name, "i1");
  EXPECT_EQ(jobs[0].task.cpu_milli, 12'500);
  EXPECT_EQ(jobs[0].task.counted.at("disk_gib"), 641);
  EXPECT_EQ(jobs[0].most_per_node, 0u);
  EXPECT_EQ(jobs[0].duration_ms, 9'000);
  EXPECT_EQ(jobs[1].task.counted.at("rdma"), 25);
  EXPECT_EQ(jobs[1].most_per_node, 8u);
  EXPECT_EQ(jobs[1].task.memory_mib, 123'392);
}

}  // namespace
}  // namespace longhaul::scheduler
