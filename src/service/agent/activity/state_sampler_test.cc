#include "service/agent/activity/state_sampler.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

namespace longhaul::service::state_sampler_test {
namespace {

using std::chrono::milliseconds;

TEST(DoingOf, TheStateComesFirstAndThenTheSystemCall) {
  EXPECT_EQ(DoingOf("1 (a) R 0", "running"), "running");
  EXPECT_EQ(DoingOf("1 (a) D 0", "0 0x3 0x7f"), "disk");
  EXPECT_EQ(DoingOf("1 (a) T 0", ""), "stopped");
  EXPECT_EQ(DoingOf("1 (a) b) S 0", "202 0x3 0x7f"), "futex");
  EXPECT_EQ(DoingOf("1 (a) S 0", ""), "sleeping");
}

TEST(DoingOf, AProcessThatHasEndedDoesNothing) {
  EXPECT_EQ(DoingOf("", ""), "");
  EXPECT_EQ(DoingOf("1 (a) Z 0", ""), "");
  EXPECT_EQ(DoingOf("1 (a", ""), "");
  EXPECT_EQ(DoingOf("1 (a)", ""), "");
}

TEST(PlaceOfLook, LooksAreSpreadOverThePeriodAndNotPeriodic) {
  std::set<int64_t> gaps;
  for (uint32_t look = 0; look + 1 < StateSampler::kLooks; ++look) {
    const double gap = PlaceOfLook(look + 1) - PlaceOfLook(look);
    EXPECT_GE(gap, 0);
    EXPECT_LE(gap, 2.0 / StateSampler::kLooks);
    gaps.insert(static_cast<int64_t>(gap * 1e9));
  }
  EXPECT_GE(PlaceOfLook(0), 0);
  EXPECT_LT(PlaceOfLook(StateSampler::kLooks - 1), 1);
  EXPECT_GE(gaps.size(), 2u);
}

// A child process that does something for ever, and is killed at the end.
class Child {
 public:
  explicit Child(void (*work)()) : pid_(fork()) {
    if (pid_ != 0) return;
    while (true) work();
  }
  ~Child() { End(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void End() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

uint32_t Times(const proto::WorkersSampled::Worker& worker, const std::string& doing) {
  uint32_t times = 0;
  for (const auto& seen : worker.seen()) {
    if (seen.doing() == doing) times += seen.times();
  }
  return times;
}

TEST(StateSampler, TellsWorkFromWaiting) {
  const Child busy([] {
    volatile int work = 0;
    work = work + 1;
  });
  const Child sleeping([] { usleep(1'000'000); });
  Child ended([] { pause(); });
  ended.End();
  const auto created = io::EventLoop::Create();
  io::EventLoop& loop = **created;
  StateSampler sampler(loop);
  proto::WorkersSampled found;
  sampler.Sample({{0, busy.pid()}, {1, sleeping.pid()}, {2, ended.pid()}}, milliseconds(300),
                 [&](proto::WorkersSampled answer) {
                   found = std::move(answer);
                   loop.Stop();
                 });
  loop.Run();
  const auto& workers = found.workers();
  ASSERT_EQ(workers.size(), 3);
  EXPECT_EQ(Times(workers[0], "running"), StateSampler::kLooks);
  EXPECT_GT(workers[0].ran_ns(), 0);
  EXPECT_GE(workers[0].period_ns(), 290'000'000);
  EXPECT_GE(Times(workers[1], "clock_nanosleep"), StateSampler::kLooks * 9 / 10);
  EXPECT_EQ(workers[1].rank(), 1u);
  EXPECT_EQ(workers[2].seen_size(), 0);
}

TEST(StateSampler, SamplingsAtOnceAreLimitedAndStillAnswered) {
  const Child sleeping([] { usleep(1'000'000); });
  const auto created = io::EventLoop::Create();
  io::EventLoop& loop = **created;
  StateSampler sampler(loop);
  size_t answers = 0, empty = 0;
  constexpr size_t kOrders = 70;
  for (size_t i = 0; i < kOrders; ++i) {
    sampler.Sample({{0, sleeping.pid()}}, milliseconds(100), [&](proto::WorkersSampled answer) {
      empty += answer.workers().empty();
      if (++answers == kOrders) loop.Stop();
    });
  }
  loop.Run();
  EXPECT_EQ(empty, kOrders - 64);
}

TEST(StateSampler, NoAnswerComesAfterItsEnd) {
  const auto created = io::EventLoop::Create();
  io::EventLoop& loop = **created;
  bool answered = false;
  {
    StateSampler sampler(loop);
    sampler.Sample({}, milliseconds(100), [&](const proto::WorkersSampled&) { answered = true; });
  }
  loop.After(milliseconds(200), [&loop] { loop.Stop(); });
  loop.Run();
  EXPECT_FALSE(answered);
}

}  // namespace
}  // namespace longhaul::service::state_sampler_test
