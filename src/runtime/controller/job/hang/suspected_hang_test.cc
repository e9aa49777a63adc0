// When the workers of a late step hang, and when they only take their time.
#include "runtime/controller/job/hang/suspected_hang.h"

#include <gtest/gtest.h>

namespace longhaul::runtime::controller::suspected_hang_test {
namespace {

using std::chrono::seconds;

proto::WorkersProbed Answer(uint32_t rank, int64_t idle_ns, const std::string& state = "S") {
  proto::WorkersProbed answer;
  answer.set_with_stacks(true);
  auto* worker = answer.add_workers();
  worker->set_rank(rank);
  worker->set_idle_ns(idle_ns);
  worker->set_process_state(state);
  worker->set_stack("all_reduce");
  return answer;
}

SuspectedHang Asked() {
  SuspectedHang suspicion;
  suspicion.BeginProbe(3);
  suspicion.BeginStacks({}, {"node-1", "node-2"});
  return suspicion;
}

TEST(SuspectedHang, IsNamedIfAllWorkersAreIdle) {
  SuspectedHang suspicion = Asked();
  EXPECT_FALSE(suspicion.Take("node-1", Answer(0, 1)));
  EXPECT_TRUE(suspicion.Take("node-2", Answer(1, 1)));
  EXPECT_TRUE(suspicion.Conclude().has_value());
  EXPECT_EQ(suspicion.stage(), SuspectedHang::Stage::kNamed);
  EXPECT_EQ(suspicion.attempt(), 3u);
}

TEST(SuspectedHang, AnActiveOrRunnableWorkerOrAMissingAnswerClearsIt) {
  for (const auto& [idle_ns, state, answers] :
       {std::tuple(0, "S", 2), std::tuple(1, "R", 2), std::tuple(1, "S", 1)}) {
    SuspectedHang suspicion = Asked();
    suspicion.Take("node-1", Answer(0, idle_ns, state));
    if (answers == 2) suspicion.Take("node-2", Answer(1, 1));
    EXPECT_FALSE(suspicion.Conclude().has_value()) << idle_ns << state << answers;
    EXPECT_EQ(suspicion.stage(), SuspectedHang::Stage::kWatching);
  }
}

TEST(SuspectedHang, PatienceFollowsTheSlowestRecentStep) {
  EXPECT_EQ(SuspectedHang::Patience(seconds(1)), seconds(6));
  EXPECT_EQ(SuspectedHang::Patience(seconds(5)), seconds(10));
}

}  // namespace
}  // namespace longhaul::runtime::controller::suspected_hang_test
