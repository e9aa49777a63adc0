#include "io/event_loop.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

#include "io/clock.h"
#include "io/net/socket.h"

namespace longhaul::io {
namespace {

using namespace std::chrono_literals;

struct Pipe {
  Pipe() {
    std::array<int, 2> fds{};
    CHECK(pipe(fds.data()) == 0);
    reader = Fd(fds[0]);
    writer = Fd(fds[1]);
  }
  void Fill() const { CHECK(write(writer.get(), "x", 1) == 1); }

  Fd reader;
  Fd writer;
};

std::unique_ptr<EventLoop> NewLoop() {
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  CHECK(loop.ok()) << loop.status().message();
  return std::move(loop).value();
}

TEST(EventLoop, CallsAWatchWhenThereIsSomethingToRead) {
  auto loop = NewLoop();
  Pipe pipe;
  int calls = 0;
  loop->Watch(pipe.reader.get(), false, [&](bool readable, bool writable) {
    EXPECT_TRUE(readable);
    EXPECT_FALSE(writable);
    ++calls;
  });
  loop->RunOnce(0ms);
  EXPECT_EQ(calls, 0);
  pipe.Fill();
  loop->RunOnce(0ms);
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, IsSilentAboutInputThatIsNotWanted) {
  auto loop = NewLoop();
  Pipe pipe;
  int calls = 0;
  loop->Watch(pipe.reader.get(), false, [&](bool, bool) { ++calls; });
  pipe.Fill();
  loop->WantRead(pipe.reader.get(), false);
  loop->RunOnce(0ms);
  EXPECT_EQ(calls, 0);
  loop->WantRead(pipe.reader.get(), true);
  loop->RunOnce(0ms);
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, SaysReadableWhenThePeerHangsUp) {
  auto loop = NewLoop();
  Pipe pipe;
  int calls = 0;
  loop->Watch(pipe.reader.get(), false, [&](bool readable, bool) { calls += readable; });
  pipe.writer.Reset();
  loop->RunOnce(0ms);
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, ReportsWritableOnlyWhileItIsWanted) {
  auto loop = NewLoop();
  auto pair = UnixPair();
  ASSERT_TRUE(pair.ok());
  int writable_calls = 0;
  const int fd = pair->first.get();
  loop->Watch(fd, false, [&](bool, bool writable) { writable_calls += writable; });
  loop->RunOnce(0ms);
  EXPECT_EQ(writable_calls, 0);
  loop->WantWrite(fd, true);
  loop->RunOnce(0ms);
  EXPECT_EQ(writable_calls, 1);
  loop->WantWrite(fd, false);
  loop->RunOnce(0ms);
  EXPECT_EQ(writable_calls, 1);
}

TEST(EventLoop, ACallbackMayRemoveItsOwnWatch) {
  auto loop = NewLoop();
  Pipe pipe;
  pipe.Fill();
  int calls = 0;
  std::string captured = "still there after Unwatch";
  loop->Watch(pipe.reader.get(), false, [&, captured](bool, bool) {
    loop->Unwatch(pipe.reader.get());
    EXPECT_EQ(captured, "still there after Unwatch");
    ++calls;
  });
  loop->RunOnce(0ms);
  loop->RunOnce(0ms);
  EXPECT_EQ(calls, 1);
}

// Both are ready in one turn; whichever comes first closes the other's descriptor and opens a new
// one of the same number. The new watch must not get the old one's event.
TEST(EventLoop, DoesNotDeliverAnEventOfAReusedDescriptor) {
  auto loop = NewLoop();
  Pipe first;
  Pipe second;
  first.Fill();
  second.Fill();
  int old_calls = 0;
  int new_calls = 0;
  Pipe* ends[] = {&first, &second};
  for (int i = 0; i < 2; ++i) {
    loop->Watch(ends[i]->reader.get(), false, [&, i](bool, bool) {
      ++old_calls;
      Fd& other = ends[1 - i]->reader;
      const int number = other.get();
      loop->Unwatch(number);
      ASSERT_EQ(dup2(second.writer.get(), number), number);
      loop->Watch(number, false, [&](bool, bool) { ++new_calls; });
    });
  }
  loop->RunOnce(0ms);
  EXPECT_EQ(old_calls, 1);
  EXPECT_EQ(new_calls, 0);
}

TEST(EventLoop, UnwatchOfAnUnknownDescriptorDoesNothing) { NewLoop()->Unwatch(12345); }

TEST(EventLoop, FiresTimersInTheOrderOfTheirDeadlines) {
  auto loop = NewLoop();
  std::string order;
  loop->After(4ms, [&] { order += "c"; });
  loop->After(1ms, [&] { order += "a"; });
  loop->After(1ms, [&] { order += "b"; });
  const Instant before = MonotonicNow();
  while (order.size() < 3) loop->RunOnce(1s);
  EXPECT_EQ(order, "abc");
  EXPECT_GE(MonotonicNow() - before, 4ms);
}

TEST(EventLoop, ACancelledTimerDoesNotFire) {
  auto loop = NewLoop();
  bool fired = false;
  const EventLoop::TimerId timer = loop->After(0ms, [&] { fired = true; });
  loop->Cancel(timer);
  loop->Cancel(timer);
  loop->RunOnce(0ms);
  EXPECT_FALSE(fired);
}

TEST(EventLoop, ATimerSetByATimerWaitsForTheNextTurn) {
  auto loop = NewLoop();
  int fired = 0;
  std::function<void()> again = [&] {
    ++fired;
    loop->After(0ms, again);
  };
  loop->After(0ms, again);
  loop->RunOnce(0ms);
  EXPECT_EQ(fired, 1);
  loop->RunOnce(0ms);
  EXPECT_EQ(fired, 2);
}

TEST(EventLoop, RunsPostedWorkInOrderAndWorkPostedByItNextTurn) {
  auto loop = NewLoop();
  std::string order;
  loop->Post([&] {
    order += "a";
    loop->Post([&] { order += "c"; });
  });
  loop->Post([&] { order += "b"; });
  loop->RunOnce(0ms);
  EXPECT_EQ(order, "ab");
  loop->RunOnce(0ms);
  EXPECT_EQ(order, "abc");
}

TEST(EventLoop, PostFromAnotherThreadWakesTheLoop) {
  auto loop = NewLoop();
  int done = 0;
  std::thread poster([&] {
    for (int i = 0; i < 100; ++i) loop->Post([&] { ++done; });
    loop->Stop();
  });
  loop->Run();
  poster.join();
  EXPECT_EQ(done, 100);
}

TEST(EventLoop, RunsAgainAfterStop) {
  auto loop = NewLoop();
  loop->Stop();
  loop->Run();
  int done = 0;
  loop->Post([&] {
    ++done;
    loop->Stop();
  });
  loop->Run();
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace longhaul::io
