#include "profiler/rank/hta.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "profiler/rank/intervals.h"
#include "profiler/rank/kernel_classes.h"
#include "profiler/read/kineto_reader.h"

namespace longhaul::profiler {
namespace {

// Worked by hand. Times in microseconds, stream 7 computes and stream 9 communicates:
//   7:  gemm [10,20)       gemm [50,70)
//   9:        allreduce [15,35)     copy [60,75)
// launched at 5, 14, 40 (after gemm's end at 20), 41.
constexpr const char* kTrace = R"([
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","ts":5,"dur":2,"args":{"correlation":1}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","ts":14,"dur":3,"args":{"correlation":2}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","ts":40,"dur":4,"args":{"correlation":3}},
{"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","ts":34,"dur":1,"args":{"correlation":4}},
{"ph":"X","cat":"kernel","name":"gemm","tid":7,"ts":10,"dur":10,"args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"nccl_AllReduce","tid":9,"ts":15,"dur":20,"args":{"correlation":2}},
{"ph":"X","cat":"kernel","name":"gemm","tid":7,"ts":50,"dur":20,"args":{"correlation":3}},
{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","tid":9,"ts":60,"dur":15,"args":{"correlation":4}}
])";

RankTrace Read(std::string_view text) {
  const auto source = OpenBytes(text);
  return ReadKineto(*source, "t").value();
}

TEST(AsHta, AgreesWithATraceWorkedByHand) {
  const HtaNumbers n = AsHta(Read(kTrace));
  EXPECT_EQ(n.kernel_us, 65);               // 10 to 75
  EXPECT_EQ(n.idle_us, 15);                 // 35 to 50
  EXPECT_EQ(n.compute_us, 30);              // 10 + 20
  EXPECT_EQ(n.non_compute_us, 20);          // 20 to 35 and 70 to 75
  EXPECT_DOUBLE_EQ(n.overlap_percent, 25);  // 15 to 20 of 15 to 35
  EXPECT_EQ(n.type_us[1], 15);              // 10 to 15, 50 to 60
  EXPECT_EQ(n.type_us[2], 15);              // 20 to 35
  EXPECT_EQ(n.type_us[3], 5);               // 15 to 20
  EXPECT_EQ(n.type_us[4], 5);               // 70 to 75
  EXPECT_EQ(n.type_us[5], 10);              // 60 to 70
  ASSERT_EQ(n.idle.size(), 2u);
  EXPECT_EQ(n.idle[0].host_wait_us, 30);    // launched at 40, after the end at 20
  EXPECT_EQ(n.idle[1].kernel_wait_us, 25);  // launched at 34, before the end at 35; gap under 30
  EXPECT_EQ(n.launches, 4u);
  EXPECT_DOUBLE_EQ(n.launch_delay_us_mean, (3 + 0 + 6 + 25) / 4.0);
  EXPECT_EQ(n.launch_delay_us_max, 25);
  EXPECT_EQ(n.launch_cpu_us, 10);
  EXPECT_EQ(n.launch_gpu_us, 65);
}

TEST(AsHta, QueueLengthsAreBetweenBothOrdersOfEqualTimes) {
  // Kernel 1 begins when kernel 2 is launched: 1, then 2 1 or 0 1, then 0.
  const HtaNumbers n = AsHta(Read(R"([
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","ts":5,"dur":2,"args":{"correlation":1}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","ts":10,"dur":2,"args":{"correlation":2}},
{"ph":"X","cat":"kernel","name":"gemm","tid":7,"ts":10,"dur":10,"args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"gemm","tid":7,"ts":20,"dur":10,"args":{"correlation":2}}])"));
  ASSERT_EQ(n.queue.size(), 1u);
  EXPECT_EQ(n.queue[0].count, 4u);
  EXPECT_DOUBLE_EQ(n.queue[0].launch_first.mean, 1.0);
  EXPECT_DOUBLE_EQ(n.queue[0].kernel_first.mean, 0.5);
  EXPECT_DOUBLE_EQ(n.queue[0].launch_first.deviation, std::sqrt(2.0 / 3));
  EXPECT_DOUBLE_EQ(n.queue[0].kernel_first.quartiles[0], 0);  // of 0 0 1 1
  EXPECT_DOUBLE_EQ(n.queue[0].kernel_first.quartiles[1], 0.5);
  EXPECT_DOUBLE_EQ(n.queue[0].launch_first.quartiles[2], 1.25);  // of 0 1 1 2
  EXPECT_EQ(n.queue[0].launch_first.max, 2);
  EXPECT_EQ(n.queue[0].kernel_first.max, 1);
}

TEST(AsHta, FindsAnotherEventWhereRowsWereNumberedAnew) {
  // Of the file's places 0 to 5 the filter keeps, in this order: kernels 4 and 5, step 0, launches
  // 1 and 2. Kernel 5's link, place 2, is the row of step 0, at 1; its launch was at 40.
  const auto source = OpenBytes(R"([
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","ts":1,"dur":99},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","ts":5,"dur":2,"args":{"correlation":1}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","ts":40,"dur":4,"args":{"correlation":2}},
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#2","ts":100,"dur":9},
{"ph":"X","cat":"kernel","name":"gemm","tid":7,"ts":10,"dur":10,"args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"gemm","tid":7,"ts":60,"dur":20,"args":{"correlation":2}}])");
  ReadOptions options;
  options.places = true;
  const RankTrace trace = ReadKineto(*source, "t", options).value();
  EXPECT_EQ(AsHta(trace).idle.at(0).host_wait_us, 40);
  EXPECT_EQ(AsHta(trace, HtaRows::kFiltered).idle.at(0).host_wait_us, 0);
  EXPECT_EQ(AsHta(trace, HtaRows::kFiltered).idle.at(0).other_us, 40);
}

TEST(AsHta, RoundsInwardsWhenTimesHaveFractions) {
  const HtaNumbers n = AsHta(Read(R"([
{"ph":"X","cat":"kernel","name":"gemm","tid":7,"ts":10.2,"dur":10,"args":{}},
{"ph":"X","cat":"kernel","name":"gemm","tid":7,"ts":30.9,"dur":4.0,"args":{}}])"));
  EXPECT_EQ(n.kernel_us, 23);   // 11 to 34
  EXPECT_EQ(n.compute_us, 12);  // 11 to 20, 31 to 34
}

// The oracle: one boolean a unit of time.
TEST(Intervals, AgreeWithBruteForce) {
  std::mt19937_64 rng(5);
  for (int round = 0; round < 500; ++round) {
    std::array<std::array<bool, 64>, 2> on = {};
    std::array<Intervals, 2> sets;
    for (size_t s = 0; s < 2; ++s) {
      for (uint64_t i = rng() % 8; i > 0; --i) {
        const auto begin = static_cast<int64_t>(rng() % 60);
        const int64_t end = begin + static_cast<int64_t>(rng() % 8) - 2;
        sets[s].push_back({begin, end});
        for (int64_t t = begin; t < end && t < 64; ++t) on[s][static_cast<size_t>(t)] = true;
      }
      sets[s] = Union(sets[s]);
    }
    int64_t either = 0, both = 0, left = 0;
    for (size_t t = 0; t < 64; ++t) {
      either += on[0][t];
      both += on[0][t] && on[1][t];
      left += on[0][t] && !on[1][t];
    }
    SCOPED_TRACE(round);
    ASSERT_EQ(Length(sets[0]), either);
    ASSERT_EQ(Length(Intersection(sets[0], sets[1])), both);
    ASSERT_EQ(Length(Difference(sets[0], sets[1])), left);
  }
}

TEST(CollectiveKinds, AreRecognisedByNoteOrName) {
  EXPECT_EQ(KindOfCollective("_reduce_scatter_base", ""), CollectiveKind::kReduceScatter);
  EXPECT_EQ(KindOfCollective("", "ncclDevKernel_AllReduce_Sum_bf16_TREE_LL"),
            CollectiveKind::kAllReduce);
  EXPECT_EQ(KindOfCollective("", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t"),
            CollectiveKind::kSendReceive);
  EXPECT_EQ(KindOfCollective("recv", "ncclDevKernel_SendRecv"), CollectiveKind::kReceive);
}

}  // namespace
}  // namespace longhaul::profiler
