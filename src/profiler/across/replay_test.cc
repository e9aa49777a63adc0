#include "profiler/across/replay.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>

#include "profiler/across/findings.h"
#include "profiler/read/kineto_reader.h"

namespace longhaul::profiler::replay_test {
namespace {

RankSummary Rank(int rank, const std::string& events) {
  const std::string text = R"({"distributedInfo":{"rank":)" + std::to_string(rank) +
                           R"(,"world_size":2},"traceEvents":[)" + events + "]}";
  const auto source = OpenBytes(text);
  return Summarize(ReadKineto(*source, "rank-" + std::to_string(rank)).value());
}

std::string Kernel(const char* name, int begin, int end) {
  return R"({"ph":"X","cat":"kernel","tid":1,"pid":1,"name":")" + std::string(name) + R"(","ts":)" +
         std::to_string(begin) + R"(,"dur":)" + std::to_string(end - begin) + "},";
}

std::string Message(const char* name, int source, int destination, int sequence, int begin,
                    int end) {
  return R"({"ph":"X","cat":"kernel","tid":1,"pid":1,"name":"gloo_)" + std::string(name) +
         R"(","ts":)" + std::to_string(begin) + R"(,"dur":)" + std::to_string(end - begin) +
         R"(,"args":{"Collective name":")" + name +
         R"(","Group size":2,"Process Group Name":"p","Process Group Ranks":"[0, 1]",)" +
         R"("In msg nelems":64,"dtype":"Float","Seq":)" + std::to_string(sequence) +
         R"(,"Src Rank":)" + std::to_string(source) + R"(,"Dst Rank":)" +
         std::to_string(destination) + "}},";
}

const std::string kStep =
    R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"ts":0,"dur":200})";

// Sends are posted: rank 0's leaves at 15, long before rank 1 comes for it at 50. Worked by hand:
//   rank 0: gemm [0,10) send [10,15) gemm [15,90) receive [90,135)  gemm [135,200)
//   rank 1: gemm [0,50) receive [50,60) gemm [60,120) send [120,125) gemm [125,150)
ProfiledJob PostedSends() {
  std::vector<RankSummary> ranks;
  ranks.push_back(Rank(0, Kernel("gemm", 0, 10) + Message("send", 0, 1, 1, 10, 15) +
                              Kernel("gemm", 15, 90) + Message("recv", 1, 0, 1, 90, 135) +
                              Kernel("gemm", 135, 200) + kStep));
  ranks.push_back(Rank(1, Kernel("gemm", 0, 50) + Message("recv", 0, 1, 1, 50, 60) +
                              Kernel("gemm", 60, 120) + Message("send", 1, 0, 1, 120, 125) +
                              Kernel("gemm", 125, 150) + kStep));
  return AssembleJob(std::move(ranks)).value();
}

TEST(Replay, GivesTheTimeBackWhereSendsArePosted) {
  const ProfiledJob job = PostedSends();
  ASSERT_EQ(job.matched, 4u);
  const Replay replay(job);
  EXPECT_NEAR(replay.Run() * 1e6, 200, 1e-6);
  // Rank 1 twice as fast: it has computed by 25, receives until 35, sends at 65. Rank 0 comes for
  // it at 90 and is not held up: 15 of wire, then 65.
  Change faster;
  faster.work = [](size_t rank, Spent spent) { return rank == 1 && IsCompute(spent) ? 0.5 : 1.0; };
  EXPECT_NEAR(replay.Run(faster) * 1e6, 90 + 15 + 65, 1e-6);
}

TEST(Replay, EndsWhereRanksWaitForEachOtherInARing) {
  // Each receives first what the other sends last: no run was ever like this.
  std::vector<RankSummary> ranks;
  ranks.push_back(Rank(0, Message("recv", 1, 0, 1, 0, 50) + Kernel("gemm", 50, 60) +
                              Message("send", 0, 1, 1, 60, 99) + kStep));
  ranks.push_back(Rank(1, Message("recv", 0, 1, 1, 0, 90) + Kernel("gemm", 90, 95) +
                              Message("send", 1, 0, 1, 95, 99) + kStep));
  const ProfiledJob job = AssembleJob(std::move(ranks)).value();
  EXPECT_GT(Replay(job).Run(), 0);
}

// Traces round: what waits for a call may begin up to a microsecond before its end. Rank 1 waits
// for a message that ends at 61, and computes from 60 on.
TEST(Replay, WhoGoesOnAMicrosecondBeforeACallsEndHasWaitedForIt) {
  std::vector<RankSummary> ranks;
  ranks.push_back(Rank(0, Kernel("gemm", 0, 50) + Message("send", 0, 1, 1, 50, 60) +
                              Kernel("gemm", 60, 110) + kStep));
  std::string receive = Message("recv", 0, 1, 1, 10, 61);
  receive.replace(receive.find(R"("tid":1)"), 7, R"("tid":2)");
  ranks.push_back(Rank(1, Kernel("gemm", 0, 10) + receive + Kernel("gemm", 60, 120) + kStep));
  const ProfiledJob job = AssembleJob(std::move(ranks)).value();
  ASSERT_EQ(job.matched, 2u);
  const Replay replay(job);
  EXPECT_NEAR(replay.Run() * 1e6, 120, 1.5);
  // Sent 25 earlier, it is there 25 earlier.
  Change faster;
  faster.work = [](size_t rank, Spent spent) { return rank == 0 && IsCompute(spent) ? 0.5 : 1.0; };
  EXPECT_NEAR(replay.Run(faster) * 1e6, 95, 1.5);
}

// A kernel or sum on a stream with its launch; the n-th.
std::string Launched(int n, int launch, int launch_end, int stream, const std::string& kernel) {
  const std::string correlation = R"("correlation":)" + std::to_string(n);
  std::string event = kernel;
  event.replace(event.find(R"("tid":1)"), 7, R"("tid":)" + std::to_string(stream));
  const size_t args = event.find(R"("args":{)");
  if (args == event.npos) {
    event.insert(event.size() - 2, R"(,"args":{)" + correlation + "}");
  } else {
    event.insert(args + 8, correlation + ",");
  }
  return event +
         R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":)" +
         std::to_string(launch) + R"(,"dur":)" + std::to_string(launch_end - launch) +
         R"(,"args":{)" + correlation + "}},";
}

std::string Synchronize(int begin, int end) {
  return R"({"ph":"X","cat":"cuda_runtime","name":"cudaStreamSynchronize","pid":9,"tid":9,"ts":)" +
         std::to_string(begin) + R"(,"dur":)" + std::to_string(end - begin) + "},";
}

// Rank 0's host launches its second gemm at 80, which idles behind a sum that nobody waits for:
// rank 1's second gemm ran meanwhile. Worked by hand:
//   rank 0: gemm [12,32) sum [32,92)  gemm launched until 80: [83,103)
//   rank 1: gemm [12,32) sum [32,92)  gemm launched until 30: [33,53)
TEST(Replay, AnEarlierLaunchIsWorthWhatAnExchangeHides) {
  std::vector<RankSummary> ranks;
  for (const int rank : {0, 1}) {
    const int late = rank == 0 ? 50 : 0;
    ranks.push_back(
        Rank(rank, Launched(1, 0, 10, 1, Kernel("gemm", 12, 32)) +
                       Launched(2, 10, 20, 2, Message("allreduce", -1, -1, 1, 32, 92)) +
                       Launched(3, 20, 30 + late, 1, Kernel("gemm", 33 + late, 53 + late)) +
                       Synchronize(30 + late, rank == 0 ? 105 : 93) + kStep));
  }
  const ProfiledJob job = AssembleJob(std::move(ranks)).value();
  ASSERT_EQ(job.matched, 2u);
  const HostChain chain = ChainOf(job.ranks[0]);
  EXPECT_EQ(chain.work_ns(), 80'000);
  EXPECT_EQ(ChainOf(job.ranks[1]).work_ns(), 30'000);
  const Replay replay(job);
  EXPECT_NEAR(replay.Run() * 1e6, 103, 1e-6);
  // Twice as fast a host: its gemm begins at 40 + 3 and is hidden by the sum, which ends at 92.
  Change faster;
  faster.work = [](size_t rank, Spent spent) {
    return rank == 0 && spent == Spent::kHost ? 0.5 : 1.0;
  };
  EXPECT_NEAR(replay.Run(faster) * 1e6, 92, 1e-6);
  // With a sum ten times as fast, too, all that is left is that gemm.
  faster.wire = [](size_t) { return 0.1; };
  EXPECT_NEAR(replay.Run(faster) * 1e6, 63, 1e-6);
}

// The second sum is hidden by a host that launches the optimizer at 200; computation passes the
// first, so neither is waited for at once. With a host ten times as fast, worked by hand: gemms
// [3,23) [23,43), sums [23,83) [83,143), and the optimizer waits for both: [143,153).
TEST(Replay, TheOptimizerWaitsForItsGradients) {
  std::vector<RankSummary> ranks;
  for (const int rank : {0, 1}) {
    ranks.push_back(
        Rank(rank, Launched(1, 0, 10, 1, Kernel("gemm", 12, 32)) +
                       Launched(2, 10, 12, 2, Message("allreduce", -1, -1, 1, 32, 92)) +
                       Launched(3, 12, 14, 1, Kernel("gemm", 32, 52)) +
                       Launched(4, 14, 16, 2, Message("allreduce", -1, -1, 2, 92, 152)) +
                       Launched(5, 190, 200, 1, Kernel("adam", 203, 213)) + Synchronize(200, 215) +
                       R"({"ph":"X","cat":"user_annotation","name":"Optimizer.step#Adam.step",)" +
                       R"("pid":9,"tid":9,"ts":180,"dur":20.5},)" + kStep));
  }
  const ProfiledJob job = AssembleJob(std::move(ranks)).value();
  const Replay replay(job);
  EXPECT_NEAR(replay.Run() * 1e6, 213, 1e-6);
  Change faster;
  faster.work = [](size_t, Spent spent) { return spent == Spent::kHost ? 0.1 : 1.0; };
  EXPECT_NEAR(replay.Run(faster) * 1e6, 153, 1e-6);
}

// The last gemm begins at 93, right behind a gather that ends at 92 and a sum that ends at 93.
// Computation passes such sums, as the second gemm does the first one: it waited for the gather.
TEST(Replay, OfTwoCallsThatEndTogetherTheOneThatIsNeverPassedIsWaitedFor) {
  std::vector<RankSummary> ranks;
  for (const int rank : {0, 1}) {
    ranks.push_back(Rank(
        rank, Launched(1, 0, 10, 1, Kernel("gemm", 12, 32)) +
                  Launched(2, 10, 12, 2, Message("allreduce", -1, -1, 1, 32, 60)) +
                  Launched(3, 12, 14, 1, Kernel("gemm", 32, 52)) +
                  Launched(4, 14, 16, 3, Message("_allgather_base", -1, -1, 2, 52, 92)) +
                  Launched(5, 16, 18, 2, Message("allreduce", -1, -1, 3, 60, 93)) +
                  Launched(6, 18, 20, 1, Kernel("gemm", 93, 113)) + Synchronize(20, 115) + kStep));
  }
  const ProfiledJob job = AssembleJob(std::move(ranks)).value();
  ASSERT_EQ(job.matched, 6u);
  const Replay replay(job);
  EXPECT_NEAR(replay.Run() * 1e6, 113, 1e-6);
  const auto three_times = [&job](CollectiveKind kind) {
    Change slower;
    slower.wire = [&job, kind](size_t i) { return job.instances[i].kind == kind ? 3.0 : 1.0; };
    return slower;
  };
  EXPECT_NEAR(replay.Run(three_times(CollectiveKind::kAllReduce)) * 1e6, 113, 1.5);
  EXPECT_NEAR(replay.Run(three_times(CollectiveKind::kAllGather)) * 1e6, 113 + 80, 1.5);
}

TEST(HostChain, IsUnknownWhereNobodyWaits) {
  const RankSummary rank = Rank(0, Launched(1, 0, 10, 1, Kernel("gemm", 12, 32)) + kStep);
  EXPECT_TRUE(ChainOf(rank).marks.empty());
}

// A wait within which another thread launched holds nobody up; a copy that returns when it is done
// is one.
TEST(HostChain, KnowsWhatHeldTheHostUp) {
  const RankSummary rank =
      Rank(0, Launched(1, 0, 10, 1, Kernel("gemm", 12, 32)) + Synchronize(11, 60) +
                  Launched(2, 20, 30, 1, Kernel("gemm", 32, 40)) +
                  Launched(3, 70, 95, 1, Kernel("gemm", 75, 90)) + kStep);
  ASSERT_EQ(rank.host_waits.size(), 1u);
  EXPECT_EQ(rank.host_waits[0], (Interval{70'000, 95'000}));
}

TEST(CriticalPath, TilesTheRunAndGoesOverToTheRankThatIsWaitedFor) {
  const CriticalPath path = FindCriticalPath(PostedSends());
  // Back from 200: rank 0 computed from 135 on, and had waited since 90 for what rank 1 sent at
  // 120; rank 1 computed from 60, received from 50 and computed before.
  const struct {
    size_t rank;
    int64_t begin_us, end_us;
    Spent spent;
  } kWant[] = {
      {1, 0, 50, Spent::kMatrixProduct},    {1, 50, 60, Spent::kExposed},
      {1, 60, 120, Spent::kMatrixProduct},  {0, 120, 135, Spent::kExposed},
      {0, 135, 200, Spent::kMatrixProduct},
  };
  ASSERT_EQ(path.pieces.size(), std::size(kWant));
  for (size_t i = 0; i < path.pieces.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(path.pieces[i].rank, kWant[i].rank);
    EXPECT_EQ(path.pieces[i].begin_ns, kWant[i].begin_us * 1000);
    EXPECT_EQ(path.pieces[i].end_ns, kWant[i].end_us * 1000);
    EXPECT_EQ(path.pieces[i].spent, kWant[i].spent);
  }
}

TEST(CriticalPath, BeginsWithTheFirstRankToBegin) {
  std::vector<RankSummary> ranks;
  ranks.push_back(Rank(0, Kernel("gemm", 30, 200) +
                              R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#1",)"
                              R"("pid":1,"tid":1,"ts":30,"dur":170})"));
  ranks.push_back(Rank(1, Kernel("gemm", 0, 150) + kStep));
  const CriticalPath path = FindCriticalPath(AssembleJob(std::move(ranks)).value());
  ASSERT_EQ(path.pieces.size(), 2u);
  EXPECT_EQ(path.pieces[0].begin_ns, 0);
  EXPECT_EQ(path.pieces[0].spent, Spent::kDependency);
  EXPECT_EQ(path.pieces[1].end_ns - path.pieces[0].begin_ns, 200'000);
}

// As PyTorch's profiler writes it where there is no device: mm inside linear, a sum on a thread of
// its own that a backward pass hides in part.
TEST(Summary, TakesOperatorsSelfTimeForKernelsWhereThereIsNoDevice) {
  const auto op = [](const char* name, const char* category, int tid, int begin, int end) {
    return R"({"ph":"X","cat":")" + std::string(category) + R"(","pid":1,"tid":)" +
           std::to_string(tid) + R"(,"name":")" + name + R"(","ts":)" + std::to_string(begin) +
           R"(,"dur":)" + std::to_string(end - begin) + "},";
  };
  const RankSummary rank =
      Rank(0, op("aten::linear", "cpu_op", 1, 10, 60) + op("aten::mm", "cpu_op", 1, 20, 60) +
                  op("autograd::engine::evaluate_function: MmBackward0", "cpu_op", 1, 70, 130) +
                  op("aten::mm", "cpu_op", 1, 80, 120) +
                  op("gloo:all_reduce", "user_annotation", 2, 100, 150) + kStep);
  std::map<Spent, int64_t> us;
  for (const Segment& s : rank.segments) us[s.spent] += (s.end_ns - s.begin_ns) / 1000;
  EXPECT_EQ(us[Spent::kMatrixProduct], 90);  // linear itself has 10
  EXPECT_EQ(us[Spent::kExposed], 30);
  EXPECT_EQ(us[Spent::kElementwise], 0);
  ASSERT_EQ(rank.collectives.size(), 1u);
  EXPECT_EQ(rank.collectives[0].kind, CollectiveKind::kAllReduce);
}

// Ten sums of two ranks, 10 us each and 10 us of computing between them; the third took 800. Rank 1
// stood still in it: its process had no processor. Then the same in rank 0's computing.
// Of two calls at once the first to end has the time: what came next may have waited for it.
TEST(Summary, GivesTheTimeOfTwoCallsToTheOneThatEndsFirst) {
  const RankSummary rank =
      Rank(0, Launched(1, 0, 1, 1, Kernel("gemm", 2, 10)) +
                  Launched(2, 1, 2, 2, Message("allreduce", -1, -1, 1, 10, 100)) +
                  Launched(3, 2, 3, 3, Message("_allgather_base", -1, -1, 2, 20, 60)) +
                  Launched(4, 3, 4, 1, Kernel("gemm", 100, 110)) + kStep);
  ASSERT_EQ(rank.collectives.size(), 2u);
  std::vector<std::tuple<int64_t, int64_t, CollectiveKind>> exposed;
  for (const Segment& segment : rank.segments) {
    if (segment.spent != Spent::kExposed) continue;
    exposed.emplace_back(segment.begin_ns, segment.end_ns,
                         rank.collectives[static_cast<size_t>(segment.collective)].kind);
  }
  const std::vector<std::tuple<int64_t, int64_t, CollectiveKind>> want = {
      {10'000, 20'000, CollectiveKind::kAllReduce},
      {20'000, 60'000, CollectiveKind::kAllGather},
      {60'000, 100'000, CollectiveKind::kAllReduce}};
  EXPECT_EQ(exposed, want);
}

TEST(Findings, NameAStallAndItsRank) {
  const auto job = [](bool in_call) {
    std::vector<RankSummary> ranks;
    for (const int rank : {0, 1}) {
      std::string events;
      int now = 0;
      for (int i = 0; i < 10; ++i) {
        const int work = !in_call && i == 3 && rank == 0 ? 800 : 10;
        events += Kernel("gemm", now, now + work);
        const int begin = now + work;
        now += !in_call && i == 3 ? 810 : in_call && i == 3 ? 810 : 20;
        events += Message("allreduce", -1, -1, i + 1, begin, now);
        if (in_call && i == 3 && rank == 0) {
          events.insert(events.size() - 3, R"(,"CPU ns":2000000)");
        } else {
          events.insert(events.size() - 3, R"(,"CPU ns":4000)");
        }
      }
      ranks.push_back(Rank(
          rank, events + R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","ts":0,)" +
                    R"("dur":)" + std::to_string(now) + "}"));
    }
    return AssembleJob(std::move(ranks)).value();
  };
  const Findings call = FindAll(job(true));
  ASSERT_FALSE(call.findings.empty());
  EXPECT_EQ(call.findings[0].cause, Cause::kStall);
  EXPECT_EQ(call.findings[0].subject, "rank 1");
  EXPECT_NEAR(call.findings[0].seconds_per_step * 1e6, 790, 1);
  // Without CPU times: rank 1 stands still in the third sum, which rank 0 has left; it waits in the
  // fourth.
  std::vector<RankSummary> ranks;
  for (const int rank : {0, 1}) {
    std::string events;
    for (int i = 0; i < 10; ++i) {
      const int begin = 20 * i + (i > 3 || (i == 3 && rank == 1) ? 780 : 0);
      const int gemm = i == 3 ? 60 : i == 4 && rank == 0 ? 80 : begin;
      events += Kernel("gemm", gemm, gemm + 10);
      events += Message("allreduce", -1, -1, i + 1, gemm + 10, begin + 20);
    }
    ranks.push_back(
        Rank(rank, events + R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","ts":0,)"
                            R"("dur":980})"));
  }
  const Findings left = FindAll(AssembleJob(std::move(ranks)).value());
  ASSERT_FALSE(left.findings.empty());
  EXPECT_EQ(left.findings[0].subject, "rank 1");
  EXPECT_NEAR(left.findings[0].seconds_per_step * 1e6, 780, 1);
  const Findings work = FindAll(job(false));
  ASSERT_FALSE(work.findings.empty());
  EXPECT_EQ(work.findings[0].cause, Cause::kStall);
  EXPECT_EQ(work.findings[0].subject, "rank 0");
  EXPECT_NEAR(work.findings[0].seconds_per_step * 1e6, 790, 1);
}

}  // namespace
}  // namespace longhaul::profiler::replay_test
