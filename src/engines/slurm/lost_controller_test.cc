#include "engines/slurm/lost_controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/slurm/slurm_fixture.h"
#include "io/files/private_files.h"
#include "service/client/endpoint.h"

namespace longhaul::engines::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LostControllerTest : public ::testing::Test {
 protected:
  LostControllerTest() {
    slurm_.Write("run/slurm/first-job", "1");
    const std::string token = slurm_.run() + "/cluster/token";
    EXPECT_TRUE(io::WritePrivateText(token, "secret\n").ok());
    service::Endpoint endpoint;
    endpoint.rest = "http://127.0.0.1:2";
    endpoint.agents = "127.0.0.1:1";
    endpoint.token_file = token;
    EXPECT_TRUE(service::WriteEndpoint(EndpointPath(slurm_.run()), endpoint).ok());
  }
  LostController GiveUp(const std::string& own_job, const std::string& address = "127.0.0.1:1") {
    return GiveUpController(address, own_job, slurm_.run());
  }
  std::vector<std::string> Requeued() { return slurm_.Calls("scontrol"); }

  SlurmPrograms slurm_;
};

TEST_F(LostControllerTest, QueuesTheFirstJobAgainThatRunsWithoutIt) {
  slurm_.Write("jobs", "1|RUNNING|n2|None\n5|RUNNING|n3|None\n");
  EXPECT_EQ(GiveUp("1"), LostController::kStay) << "Slurm ends this agent";
  EXPECT_THAT(Requeued(), ElementsAre("scontrol requeue 1"));
  EXPECT_EQ(GiveUp("5"), LostController::kEnd) << "of a further job";
}

TEST_F(LostControllerTest, LeavesARunAloneThatHasStartedAgain) {
  slurm_.Write("jobs", "1|RUNNING|n2|None\n5|RUNNING|n3|None\n");
  EXPECT_EQ(GiveUp("5", "127.0.0.1:9"), LostController::kEnd);
  EXPECT_THAT(Requeued(), IsEmpty()) << "its controller has another address";
}

TEST_F(LostControllerTest, EndsWhenTheFirstJobHasEndedOrWaits) {
  for (const char* first : {"", "1|COMPLETED||None\n", "1|PENDING||BeginTime\n"}) {
    slurm_.Write("jobs", std::string(first) + "5|RUNNING|n3|None\n");
    EXPECT_EQ(GiveUp("5"), LostController::kEnd) << first;
  }
  EXPECT_THAT(Requeued(), IsEmpty());
}

TEST_F(LostControllerTest, TriesAgainWhenSlurmDoesNotAnswer) {
  EXPECT_EQ(GiveUp("5"), LostController::kTryAgain) << "not even its own job is known";
  slurm_.Write("jobs", "1|RUNNING|n2|None\n5|RUNNING|n3|None\n");
  slurm_.Write("refuse", "");
  EXPECT_EQ(GiveUp("5"), LostController::kTryAgain) << "another agent has queued the job again";
  slurm_.Remove("run/slurm/first-job");
  EXPECT_EQ(GiveUp("5"), LostController::kTryAgain);
}

}  // namespace
}  // namespace longhaul::engines::slurm
