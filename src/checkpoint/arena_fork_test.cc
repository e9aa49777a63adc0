// Snapshots by a forked child: what is sealed is the state at the fork.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "base/units.h"
#include "checkpoint/arena.h"
#include "checkpoint/testing.h"
#include "io/fd.h"
#include "io/memory/shared_memory.h"
#include "io/process/forked_child.h"

namespace longhaul::checkpoint {
namespace {

using testing_support::SmallPlan;
using testing_support::State;

class ForkedSnapshot : public testing::Test {
 protected:
  void SetUp() override {
    const Bytes size(static_cast<int64_t>(ArenaBytesFor(SmallPlan())));
    Result<io::Fd> fd = io::CreateSharedMemory("arena", size, true);
    ASSERT_TRUE(fd.ok()) << fd.status();
    Result<io::SharedMapping> mapping = io::SharedMapping::Map(*fd);
    ASSERT_TRUE(mapping.ok()) << mapping.status();
    mapping_ = std::move(mapping).value();
  }
  std::span<std::byte> arena() { return mapping_.bytes(); }
  bool Holds(uint64_t step, const State& state) {
    const Result<ArenaReader::View> view = ArenaReader(arena()).Open(step);
    return view.ok() && state.Equals(view->tensors);
  }

  io::SharedMapping mapping_;
};

TEST_F(ForkedSnapshot, HoldsTheStateAtTheForkWhateverIsWrittenAfter) {
  ArenaWriter writer(arena());
  for (uint64_t step = 1; step <= 20; ++step) {
    State state(SmallPlan(), step);
    const State before(SmallPlan(), step);
    ASSERT_TRUE(writer.Begin(step, 1, state.plan()).ok());
    ASSERT_TRUE(writer.StartCopy(state.Tensors()).ok());
    EXPECT_TRUE(writer.copying());
    for (const auto tensor : state.Writable())
      std::fill(tensor.begin(), tensor.end(), std::byte{9});
    const Status finished = writer.Finish();
    ASSERT_TRUE(finished.ok()) << finished;
    EXPECT_FALSE(writer.copying());
    ASSERT_TRUE(Holds(step, before)) << step;
    ASSERT_FALSE(Holds(step, state)) << step;
  }
}

TEST_F(ForkedSnapshot, AKilledChildLosesOnlyItsOwnSnapshot) {
  const State state(SmallPlan(), 1);
  ArenaWriter writer(arena());
  ASSERT_TRUE(writer.Begin(1, 1, state.plan()).ok());
  ASSERT_TRUE(writer.StartCopy(state.Tensors()).ok());
  ASSERT_TRUE(writer.Finish().ok());
  int lost = 0;
  for (uint64_t step = 2; step < 60; ++step) {
    {
      ArenaWriter dies(arena());  // and kills its child
      ASSERT_TRUE(dies.Begin(step, 1, state.plan()).ok());
      ASSERT_TRUE(dies.StartCopy(state.Tensors()).ok());
    }
    const std::vector<SealedSnapshot> found = ArenaReader(arena()).ListSealed();
    ASSERT_FALSE(found.empty());
    ASSERT_TRUE(Holds(found[0].step, state));
    lost += found[0].step != step;
  }
  EXPECT_GT(lost, 0) << "the kill must come before some of the seals";
}

TEST(ForkedChild, SaysHowItEnded) {
  Result<io::ForkedChild> child = io::ForkedChild::Start([](void*) { return 7; }, nullptr);
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(*child->Wait(), 7);
  child = io::ForkedChild::Start([](void*) { return pause(); }, nullptr);
  ASSERT_TRUE(child.ok());
  EXPECT_TRUE(io::ProcessExists(child->pid()));
  kill(child->pid(), SIGKILL);
  EXPECT_EQ(child->Wait().status().code(), Code::kAborted);
}

}  // namespace
}  // namespace longhaul::checkpoint
