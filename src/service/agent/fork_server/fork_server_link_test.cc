#include "service/agent/fork_server/fork_server_link.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "base/temporary_folder.h"

namespace longhaul::service::fork_server_link_test {
namespace {

constexpr Duration kPatience = std::chrono::milliseconds(20);

// A process that never answers, with `kPatience`.
class SilentForkServer : public testing::Test {
 protected:
  void SetUp() override {
    const ForkServerCommand command{{"/bin/sleep", "60"}, {}, ""};
    auto link =
        ForkServerLink::Start(*loop_, command, folder_.path() + "/log", std::nullopt, kPatience);
    ASSERT_TRUE(link.ok()) << link.status();
    link_ = *std::move(link);
  }

  void RunFor(Duration time) {
    loop_->After(time, [this] { loop_->Stop(); });
    loop_->Run();
  }

  TemporaryFolder folder_{testing::TempDir()};
  const std::unique_ptr<io::EventLoop> loop_ = *io::EventLoop::Create();
  std::unique_ptr<ForkServerLink> link_;
};

TEST_F(SilentForkServer, MayWaitForItsFirstRequestAsLongAsItLikes) {
  RunFor(10 * kPatience);
  EXPECT_TRUE(link_->alive());
}

TEST_F(SilentForkServer, IsEndedIfItDoesNotAnswerTheFirstRequestInTime) {
  RunFor(3 * kPatience);
  const io::Fd output(open("/dev/null", O_WRONLY | O_CLOEXEC));
  Status answered;
  link_->Fork({}, {}, output.get(), [&](const Result<int64_t>& worker) {
    answered = worker.status();
    loop_->Stop();
  });
  loop_->Run();
  EXPECT_EQ(answered.code(), Code::kUnavailable) << answered;
  EXPECT_THAT(answered.message(), testing::HasSubstr("not answered in time"));
  EXPECT_FALSE(link_->alive());
}

}  // namespace
}  // namespace longhaul::service::fork_server_link_test
