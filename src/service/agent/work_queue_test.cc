#include "service/agent/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace longhaul::service {
namespace {

class WorkQueueTest : public testing::Test {
 protected:
  std::unique_ptr<io::EventLoop> loop_ = *io::EventLoop::Create();
};

TEST_F(WorkQueueTest, WorksInOrderElsewhereAndAnswersHere) {
  WorkQueue queue(*loop_);
  const auto here = std::this_thread::get_id();
  std::vector<int> answered;
  constexpr int kPieces = 200;
  for (int i = 0; i < kPieces; ++i) {
    queue.Enqueue([&, i]() -> WorkQueue::Answer {
      EXPECT_NE(std::this_thread::get_id(), here);
      return [&, i] {
        EXPECT_EQ(std::this_thread::get_id(), here);
        answered.push_back(i);
        if (i + 1 == kPieces) loop_->Stop();
      };
    });
  }
  loop_->Run();
  ASSERT_EQ(answered.size(), static_cast<size_t>(kPieces));
  for (int i = 0; i < kPieces; ++i) EXPECT_EQ(answered[static_cast<size_t>(i)], i);
}

TEST_F(WorkQueueTest, FinishesThePieceUnderWayAndAnswersNothingAtItsEnd) {
  std::atomic<bool> begun = false, finished = false, others = false;
  bool answered = false;
  {
    WorkQueue queue(*loop_);
    queue.Enqueue([&]() -> WorkQueue::Answer {
      begun = true;
      while (!others) std::this_thread::yield();
      finished = true;
      return [&answered] { answered = true; };
    });
    while (!begun) std::this_thread::yield();
    others = true;
  }
  EXPECT_TRUE(finished);
  loop_->Post([this] { loop_->Stop(); });
  loop_->Run();
  EXPECT_FALSE(answered);
}

}  // namespace
}  // namespace longhaul::service
