#include "runtime/controller/job/hang/stack_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/controller/job/hang/stack_inquiry.h"

namespace longhaul::runtime::controller::stack_groups_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<WorkerStack> Stacks(const std::vector<std::string>& stacks) {
  std::vector<WorkerStack> workers;
  for (uint32_t rank = 0; rank < stacks.size(); ++rank) {
    const bool stopped = stacks[rank] == "T";
    workers.push_back({rank, "node-1", stopped ? "T" : "S", stopped ? "" : stacks[rank]});
  }
  return workers;
}

TEST(GroupStacks, NamesTheWorkersThatDiffer) {
  const struct {
    std::vector<std::string> stacks;
    std::vector<uint32_t> outliers;
  } kRows[] = {
      {{"f", "f", "g", "f"}, {2}},
      {{"f", "f", "g", "h", "f"}, {2, 3}},
      {{"f", "f", "f"}, {}},                // all are the same
      {{"f", "g"}, {}},                     // which of them?
      {{"f", "g", "h"}, {}},                // no group has the majority
      {{"all_reduce (d.py:1)", "g"}, {1}},  // only one waits for the other
      {{"f", "f", "barrier (d.py:1)"}, {0, 1}},
      {{"all_reduce (d.py:1)", "barrier (d.py:2)"}, {}},
      {{"f", "T"}, {1}},
      {{"T", "T"}, {}},
      {{"all_reduce", "T", "g", "all_reduce"}, {1, 2}},  // two faults at once
      {{"T", "f", "f", "f", "g"}, {0, 4}},
      {{"T", "f", "g"}, {0}},
      {{"all_reduce (d.py:1)", "all_reduce (d.py:1)", "all_reduce (d.py:9)", "T"}, {3}},
      {{"all_reduce (d.py:1)", "all_reduce (d.py:1)", "all_reduce (d.py:9)"}, {2}},
      {{"", "all_reduce"}, {}},  // nothing is known of it
      {{"f"}, {}},
      {{}, {}},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(GroupStacks(Stacks(row.stacks)).outliers, row.outliers)
        << testing::PrintToString(row.stacks);
  }
}

TEST(WaitsForOthers, KnowsCollectivesByTheNamesOfTheirCalls) {
  for (const char* stack : {
           "wait (threading.py:324)\nall_reduce (torch/distributed_c10d.py:7)\n",
           "pthread_cond_wait\nstd::condition_variable::wait\nc10d::Reducer::finalize_backward\n",
           "libc.so.6+?\ngloo::transport::tcp::UnboundBuffer::waitRecv\n",
           "sched_yield\nlibnccl.so.2+?\nncclGroupEnd\n",
           "poll\nlibnccl.so.2+?\nmain\n",
           "ncclAllReduce\n",
           "poll\nlibmpi.so.40+?\nMPI_Allreduce\nmain\n",
           "PMPI_Barrier\n",
           "poll\nmy_allreduce\nmain\n",
       }) {
    EXPECT_TRUE(WaitsForOthers(stack)) << stack;
  }
  for (const char* stack : {
           "",
           "read\nmain\n",
           "libc.so.6+?\npthread_barrier_wait\nmain\n",
           "pthread_cond_broadcast\n",
           "std::barrier<>::wait\n",
           "at::broadcast_tensors\n",
           "load (MPI_files.py:3)\nmain (a/nccl.py:1)\n",
       }) {
    EXPECT_FALSE(WaitsForOthers(stack)) << stack;
  }
}

TEST(GroupStacks, NamesTheWorkerWhoseNativeCallsDiffer) {
  const std::string waits = "epoll_wait\ngloo::transport::tcp::Loop::run\nmain\n";
  const std::string waits_too = "pthread_cond_wait\ngloo::allreduce\nmain\n";
  const StackGroups groups = GroupStacks(Stacks({waits, "read\nload_samples\nmain\n", waits_too}));
  EXPECT_THAT(groups.outliers, ElementsAre(1));
  EXPECT_THAT(Describe(groups), HasSubstr("]: read < load_samples < main"));
}

TEST(Describe, LeavesOutNativeCallsOfLibrariesBelowTheFirst) {
  const std::string text = Describe(
      GroupStacks(Stacks({"clock_nanosleep\n__nanosleep\nsleep\nload_samples\nmain\nlibc.so.6+?\n"
                          "__libc_start_main\n_start\n"})));
  EXPECT_THAT(text, HasSubstr("]: clock_nanosleep < load_samples < main < ..."));
}

TEST(GroupStacks, TheLargestGroupIsTheFirst) {
  const StackGroups groups = GroupStacks(Stacks({"g", "f", "f"}));
  ASSERT_EQ(groups.groups.size(), 2u);
  EXPECT_THAT(groups.groups[0].ranks, ElementsAre(1, 2));
  EXPECT_THAT(groups.groups[1].ranks, ElementsAre(0));
  EXPECT_NE(groups.groups[0].hash, groups.groups[1].hash);
}

TEST(Describe, HasTheFirstCallsOfEachGroup) {
  const std::string text = Describe(GroupStacks(Stacks({"a\nb\nc\nd\n", "x", "a\nb\nc\nd\n"})));
  EXPECT_THAT(text, HasSubstr("worker 1 differs from the others; workers 0, 2 ["));
  EXPECT_THAT(text, HasSubstr("]: a < b < c < ...; worker 1 ["));
  EXPECT_THAT(Describe(GroupStacks({})), IsEmpty());
}

proto::WorkersProbed Answer(uint32_t rank, const std::string& stack) {
  proto::WorkersProbed answer;
  answer.set_with_stacks(true);
  answer.add_workers()->set_rank(rank);
  answer.mutable_workers(0)->set_process_state("S");
  answer.mutable_workers(0)->set_stack(stack);
  return answer;
}

TEST(StackInquiry, IsCompleteOnceEveryNodeHasAnswered) {
  StackInquiry inquiry;
  EXPECT_FALSE(inquiry.Take("node-1", Answer(0, "f"))) << "nothing was asked";
  inquiry.Begin({proto::FaultClass::kHang, "no step", "", -1, Instant{}, true},
                {"node-1", "node-2"});
  EXPECT_FALSE(inquiry.Take("node-1", Answer(0, "wait_for_others")));
  EXPECT_FALSE(inquiry.Take("node-1", Answer(0, "g"))) << "an answer counts once";
  EXPECT_FALSE(inquiry.Take("node-3", Answer(0, "g"))) << "it was not asked";
  EXPECT_FALSE(inquiry.Take("node-2", proto::WorkersProbed())) << "an answer to another probe";
  EXPECT_TRUE(inquiry.Take("node-2", Answer(1, "g")));
  const Evidence evidence = inquiry.Conclude();
  EXPECT_EQ(evidence.rank, 1);
  EXPECT_EQ(evidence.node, "node-2");
  EXPECT_THAT(evidence.what, HasSubstr("no step; stacks: worker 1 differs"));
  EXPECT_FALSE(inquiry.pending());
}

TEST(StackInquiry, WithoutAnswersTheFaultIsAsItWas) {
  StackInquiry inquiry;
  inquiry.Begin({proto::FaultClass::kHang, "no step", "", -1, Instant{}, true}, {"node-1"});
  EXPECT_EQ(inquiry.Conclude().what, "no step");
}

}  // namespace
}  // namespace longhaul::runtime::controller::stack_groups_test
