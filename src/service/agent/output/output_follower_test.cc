#include "service/agent/output/output_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <variant>

#include "base/temporary_folder.h"

namespace longhaul::service::output_follower_test {
namespace {

using testing::ElementsAre;

constexpr const char* kPattern = R"(step (?P<step>\d+))";

class OutputFollowerTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_, std::ios::app) << text << std::flush; }
  // Turns the loop until so many steps have been reported.
  void Await(size_t steps) {
    for (int turn = 0; turn < 10'000 && steps_.size() < steps; ++turn) {
      loop_->RunOnce(std::chrono::milliseconds(10));
    }
  }

  TemporaryFolder folder_{::testing::TempDir()};
  const std::string path_ = folder_.path() + "/rank-0.log";
  const runtime::WorkerId worker_{JobId("job-1"), 1, 0};
  std::unique_ptr<io::EventLoop> loop_ = *io::EventLoop::Create();
  std::vector<uint64_t> steps_;
  OutputFollower follower_{*loop_, [this](const runtime::AgentInput& input) {
                             steps_.push_back(std::get<runtime::WorkerOutputStep>(input).step);
                           }};
};

TEST_F(OutputFollowerTest, TellsStepsAsTheyAreWritten) {
  Write("step 99 of an earlier life\n");
  ASSERT_TRUE(follower_.Follow(worker_, path_, 27, kPattern).ok());
  Write("step 1\n");
  Await(1);
  EXPECT_THAT(steps_, ElementsAre(1));
  Write("step 2\nstep 3\n");
  Await(3);
  EXPECT_THAT(steps_, ElementsAre(1, 2, 3));
}

TEST_F(OutputFollowerTest, WhatWasWrittenBeforeItIsWatchedIsReportedToo) {
  Write("step 1\n");
  ASSERT_TRUE(follower_.Follow(worker_, path_, 0, kPattern).ok());
  Await(1);
  EXPECT_THAT(steps_, ElementsAre(1));
}

TEST_F(OutputFollowerTest, TheRestIsReportedWhenTheWorkerHasEnded) {
  Write("");
  ASSERT_TRUE(follower_.Follow(worker_, path_, 0, kPattern).ok());
  Write(std::string(1 << 20, 'x') + "\nstep 1\nstep 2");
  follower_.Finish(worker_);
  EXPECT_THAT(steps_, ElementsAre(1, 2));
  follower_.Finish(worker_);
  Write("step 3\n");
  loop_->RunOnce(Duration(0));
  EXPECT_THAT(steps_, ElementsAre(1, 2));
}

TEST_F(OutputFollowerTest, MoreThanOneTurnsBytesAreReadToTheEnd) {
  Write(std::string(2 << 20, 'x') + "\nstep 1\n");
  ASSERT_TRUE(follower_.Follow(worker_, path_, 0, kPattern).ok());
  Await(1);
  EXPECT_THAT(steps_, ElementsAre(1));
}

TEST_F(OutputFollowerTest, SaysWhatCannotBeFollowed) {
  EXPECT_EQ(follower_.Follow(worker_, path_, 0, kPattern).code(), Code::kNotFound);
  EXPECT_EQ(follower_.Follow(worker_, path_, 0, "no group").code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace longhaul::service::output_follower_test
