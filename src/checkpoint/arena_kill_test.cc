// A writer that is killed at any moment leaves the newest sealed snapshot exact.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "base/random.h"
#include "base/units.h"
#include "checkpoint/arena.h"
#include "checkpoint/testing.h"
#include "io/fd.h"
#include "io/memory/shared_memory.h"

namespace longhaul::checkpoint {
namespace {

using testing_support::State;

const StatePlan& Plan() {
  static const StatePlan plan =
      *StatePlan::Create({{"a", "U8", {40'000}}, {"b", "F32", {9}}, {"c", "U8", {70'001}}});
  return plan;
}

// In the child: seals step after step until it is killed, and says so after each. Two states take
// turns, so that every step overwrites other bytes.
[[noreturn]] void WriteForever(const io::Fd& fd, std::atomic<uint64_t>& sealed, uint64_t first) {
  const State even(Plan(), 0), odd(Plan(), 1);
  const Result<io::SharedMapping> mapping = io::SharedMapping::Map(fd);
  ArenaWriter writer(mapping->bytes());
  for (uint64_t step = first;; ++step) {
    const State& state = step % 2 == 0 ? even : odd;
    if (!writer.Begin(step, 1, Plan()).ok()) _exit(1);
    for (size_t i = 0; i < Plan().size(); ++i) writer.Write(i, state.tensor(i));
    writer.Seal();
    sealed.store(step);
  }
}

TEST(ArenaKill, TheNewestSealedIsThereAndExactAfterAnyOfManyKills) {
  const State even(Plan(), 0), odd(Plan(), 1);
  const Bytes size(static_cast<int64_t>(ArenaBytesFor(Plan())));
  const Result<io::Fd> fd = io::CreateSharedMemory("arena", size, true);
  const Result<io::Fd> counter_fd = io::CreateSharedMemory("sealed", Bytes(4096), true);
  ASSERT_TRUE(fd.ok() && counter_fd.ok());
  const Result<io::SharedMapping> mapping = io::SharedMapping::Map(*fd);
  const Result<io::SharedMapping> counter = io::SharedMapping::Map(*counter_fd);
  auto& sealed = *new (counter->bytes().data()) std::atomic<uint64_t>(0);
  const ArenaReader reader(mapping->bytes());

  Random random(17);
  int caught_writing = 0;
  // On a loaded machine few of 200 kills hit a writer: then there are more.
  for (int kill_number = 0; kill_number < 200 || (caught_writing <= 10 && kill_number < 5000);
       ++kill_number) {
    const uint64_t before = sealed.load();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) WriteForever(*fd, sealed, before + 1);
    // Waits by the child's progress and then a random number of turns, not by a clock.
    const uint64_t target = before + 1 + random.Below(3);
    while (sealed.load() < target) sched_yield();
    for (uint64_t spin = random.Below(20'000); spin > 0; --spin) sealed.load();
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);

    const uint64_t reported = sealed.load();
    const std::vector<SealedSnapshot> found = reader.ListSealed();
    ASSERT_FALSE(found.empty());
    // The child may have died between the seal and saying so.
    ASSERT_TRUE(found[0].step == reported || found[0].step == reported + 1)
        << found[0].step << " found, " << reported << " reported";
    caught_writing += found.size() < kArenaSlots;
    for (const SealedSnapshot& snapshot : found) {
      const Result<ArenaReader::View> view = reader.Open(snapshot.step);
      ASSERT_TRUE(view.ok()) << "kill " << kill_number << ": " << view.status();
      ASSERT_TRUE((snapshot.step % 2 == 0 ? even : odd).Equals(view->tensors));
    }
    sealed.store(found[0].step);
  }
  EXPECT_GT(caught_writing, 10) << "the kills must hit writers in the middle";
}

}  // namespace
}  // namespace longhaul::checkpoint
