#include "service/controller/plan/plan_service.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <thread>

#include "base/temporary_folder.h"

namespace longhaul::service {
namespace {

// A planner that is a shell script: what it does when is chosen by the test. page_plan_test has the
// real one.
class PlanServiceTest : public testing::Test {
 protected:
  std::string Script(const std::string& lines) {
    const std::string path = folder_.path() + "/planner";
    std::ofstream(path) << "#!/bin/sh\n" << lines << "\n";
    EXPECT_EQ(::chmod(path.c_str(), 0700), 0);
    return path;
  }

  static PlanRequest Request() {
    PlanRequest request;
    request.model = "gpt2";
    request.device = "h100-sxm";
    request.devices = 8;
    return request;
  }

  static PlanStatus Await(const PlanService& service, uint64_t plan, PlanState state) {
    Result<PlanStatus> status = service.Get(plan);
    const auto changes = [](PlanState now) {
      return now == PlanState::kWaiting || now == PlanState::kSearching;
    };
    while (status.ok() && status->state != state && changes(status->state)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      status = service.Get(plan);
    }
    EXPECT_TRUE(status.ok()) << status.status().message();
    if (!status.ok()) return {};
    EXPECT_EQ(NameOf(status->state), NameOf(state));
    return *status;
  }

  TemporaryFolder folder_{testing::TempDir()};
};

TEST_F(PlanServiceTest, ReturnsWhatThePlannerPrints) {
  PlanService service(
      Script("echo \"{\\\"words\\\": \\\"$*\\\", \\\"read\\\": \\\"$(cat)\\\"}\"; exit 1"));
  PlanRequest request = Request();
  request.model.clear();
  request.model_text = "layers: 2";
  const auto started = service.Start(request);
  ASSERT_TRUE(started.ok()) << started.status().message();
  const PlanStatus done = Await(service, started->plan, PlanState::kDone);
  EXPECT_EQ(done.result,
            "{\"words\": \"plan /dev/stdin h100-sxm:8 --search-seconds=20.000000 --threads=1 "
            "--json\", \"read\": \"layers: 2\"}\n");
  EXPECT_GT(done.searched, Duration(0));
}

TEST_F(PlanServiceTest, APlannerThatFailsIsQuoted) {
  PlanService service(Script("echo 'longhaul: --fix: no layout key named tensr' >&2; exit 2"));
  const auto started = service.Start(Request());
  ASSERT_TRUE(started.ok());
  EXPECT_EQ(Await(service, started->plan, PlanState::kFailed).error,
            "--fix: no layout key named tensr");
}

TEST_F(PlanServiceTest, TooMuchOutputIsAFailure) {
  PlanService service(Script("head -c 5000000 /dev/zero | tr '\\0' ' '; echo '{}'"));
  const auto started = service.Start(Request());
  ASSERT_TRUE(started.ok());
  EXPECT_EQ(Await(service, started->plan, PlanState::kFailed).result, "");
}

TEST_F(PlanServiceTest, OneSearchAtATimeAndAFewWait) {
  PlanService service(Script("sleep 1000"));
  for (uint64_t plan = 1; plan <= 4; ++plan) {
    const auto started = service.Start(Request());
    ASSERT_TRUE(started.ok());
    EXPECT_EQ(started->plan, plan);
  }
  const auto refused = service.Start(Request());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
  Await(service, 1, PlanState::kSearching);
  EXPECT_EQ(service.Get(2)->state, PlanState::kWaiting);
  // A cancelled search ends its process, and the next one that is still wanted begins.
  EXPECT_EQ(service.Cancel(2)->state, PlanState::kCancelled);
  EXPECT_EQ(service.Cancel(1)->state, PlanState::kCancelled);
  Await(service, 3, PlanState::kSearching);
  EXPECT_EQ(service.Get(1)->state, PlanState::kCancelled);
  EXPECT_FALSE(service.Get(5).ok());
}

TEST_F(PlanServiceTest, OldPlansAreForgotten) {
  PlanService service(Script("echo '{}'"));
  for (uint64_t plan = 1; plan <= 40; ++plan) {
    ASSERT_TRUE(service.Start(Request()).ok());
    Await(service, plan, PlanState::kDone);
  }
  EXPECT_EQ(service.Get(1).status().code(), Code::kNotFound);
  EXPECT_EQ(service.Get(25)->state, PlanState::kDone);
}

TEST_F(PlanServiceTest, WithoutAPlannerThereIsNoPlan) {
  PlanService service("");
  EXPECT_EQ(service.Start(Request()).status().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace longhaul::service
