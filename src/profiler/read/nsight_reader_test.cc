#include "profiler/read/nsight_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "profiler/rank/summary.h"
#include "profiler/report/read_job.h"

namespace longhaul::profiler {
namespace {

// The bytes of a database made by these statements.
std::string Make(const char* sql) {
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open(":memory:", &database), SQLITE_OK);
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, &error), SQLITE_OK) << error;
  sqlite3_int64 size = 0;
  unsigned char* bytes = sqlite3_serialize(database, "main", &size, 0);
  std::string text(reinterpret_cast<char*>(bytes), static_cast<size_t>(size));
  sqlite3_free(bytes);
  sqlite3_close(database);
  return text;
}

constexpr const char* kExport = R"(
CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);
INSERT INTO StringIds VALUES (1, 'sm80_gemm'), (2, 'ncclKernel_AllReduce'), (3, 'cudaLaunchKernel');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, streamId, correlationId,
                                        demangledName);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 5000, 0, 7, 11, 1), (6000, 9000, 0, 20, 12, 2);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start, end, globalTid, correlationId, nameId);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (500, 700, 99, 11, 3), (5400, 5900, 99, 12, 3);
CREATE TABLE NVTX_EVENTS(start, end, text, textId, globalTid);
INSERT INTO NVTX_EVENTS VALUES (400, 9500, 'train_step 1', NULL, 99), (1, NULL, 'mark', NULL, 99);
)";

// As in a real export of a machine with A40s and A100s: ids and CUDA's numbers differ.
TEST(ReadNsight, NamesTheDeviceThatRanTheKernels) {
  const std::string gpus = R"(
CREATE TABLE TARGET_INFO_GPU(id, cuDevice, name);
INSERT INTO TARGET_INFO_GPU VALUES (3, 2, 'NVIDIA A40'), (0, 1, 'NVIDIA L4'),
                                   (1, 0, 'NVIDIA A100-PCIE-40GB');
)";
  const auto name = [](const std::string& sql) {
    return ReadNsightBytes(Make(sql.c_str()), "rank-0.sqlite").value().metadata.device_name;
  };
  EXPECT_EQ(name(kExport + gpus), "NVIDIA A100-PCIE-40GB");
  EXPECT_EQ(name(kExport + gpus + "ALTER TABLE TARGET_INFO_GPU DROP COLUMN cuDevice;"),
            "NVIDIA L4");
}

TEST(ReadNsight, ReadsKernelsLaunchesAndRanges) {
  const Result<RankTrace> trace = ReadNsightBytes(Make(kExport), "rank-2.sqlite");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->metadata.rank, 2);
  EXPECT_EQ(trace->events.size(), 5u);
  EXPECT_EQ(trace->report.damages, 0u);
  // From the range's begin: 600 ns of host, 4,000 of product, 1,000 of host, 3,000 exposed.
  const RankSummary summary = Summarize(*trace);
  ASSERT_EQ(summary.steps.size(), 1u);
  EXPECT_EQ(summary.steps[0].name, "train_step 1");
  ASSERT_EQ(summary.segments.size(), 4u);
  EXPECT_EQ(summary.segments[0].spent, Spent::kHost);
  EXPECT_EQ(summary.segments[1].spent, Spent::kMatrixProduct);
  EXPECT_EQ(summary.segments[2].spent, Spent::kHost);
  EXPECT_EQ(summary.segments[3].spent, Spent::kExposed);
  EXPECT_EQ(summary.segments[3].end_ns - summary.segments[3].begin_ns, 3000);
}

TEST(ReadNsight, IsKnownByItsFirstBytes) {
  const std::string path = testing::TempDir() + "/nsight-rank-1.sqlite";
  std::ofstream(path, std::ios::binary) << Make(kExport);
  const Result<RankTrace> trace = ReadTraceFile(path, {});
  std::remove(path.c_str());
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->events.size(), 5u);
}

TEST(ReadNsight, RefusesOtherDatabasesAndTellsDamage) {
  EXPECT_FALSE(ReadNsightBytes(Make("CREATE TABLE a(b);"), "x").ok());
  EXPECT_FALSE(ReadNsightBytes("junk", "x").ok());
  const auto trace = ReadNsightBytes(
      Make("CREATE TABLE StringIds(id, value); CREATE TABLE NVTX_EVENTS(start);"), "x");
  ASSERT_TRUE(trace.ok());
  ASSERT_EQ(trace->report.damages, 1u);
  EXPECT_THAT(trace->report.kept[0].what, testing::HasSubstr("table NVTX_EVENTS: no such column"));
}

}  // namespace
}  // namespace longhaul::profiler
