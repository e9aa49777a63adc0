#include "engines/kubernetes/service/pod_scheduler_service.h"

#include <gmock/gmock.h>

#include "engines/kubernetes/client/client_fixture.h"
#include "io/clock.h"

namespace longhaul::engines::kubernetes {
namespace {

using testing::HasSubstr;

class PodSchedulerServiceTest : public ClientFixture {
 protected:
  void Begin() {
    Connect();
    const Json amounts = {{"cpu", "64"}, {"memory", "512Gi"}, {"pods", "110"}};
    Make("nodes", {{"metadata", {{"name", "n0"}}},
                   {"status",
                    {{"capacity", amounts},
                     {"allocatable", amounts},
                     {"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}});
    service_ = std::make_unique<PodSchedulerService>(
        *loop_, *client_, PodSchedulerSettings{}, [] { return true; },
        [this](const std::string& line) { log_ += line + "\n"; });
  }
  void Make(const std::string& path, const Json& object) {
    ApiRequest request = RequestFor("POST", "/api/v1/" + path, object.dump());
    const ApiResponse response = server_->api().Handle(request);
    ASSERT_EQ(response.status, 201) << response.body;
  }
  void AddPods(int count) {
    for (int i = 0; i < count; ++i) {
      Make("namespaces/ns/pods",
           {{"metadata", {{"name", "p" + std::to_string(i)}}},
            {"spec",
             {{"schedulerName", "longhaul"},
              {"containers", Json::array({{{"name", "main"}, {"image", "x"}}})}}}});
    }
    server_->Publish();
  }
  uint64_t Bound() const { return service_->scheduler().counts().bound; }

  std::string log_;
  std::unique_ptr<PodSchedulerService> service_;
};

TEST_F(PodSchedulerServiceTest, EventsThatAreRefusedHinderNoBind) {
  Begin();
  Fault refused;
  refused.path = "/events";
  refused.status = 403;
  refused.times = 1'000;
  server_->Inject(refused);
  AddPods(20);
  Until([&] { return Bound() == 20 && service_->events().failed >= 2; });
  EXPECT_TRUE(service_->idle());
  EXPECT_THAT(log_, HasSubstr("events of pods that were not written"));
  EXPECT_EQ(server_->api().Names("events").size(), 0u);
}

TEST_F(PodSchedulerServiceTest, EventsThatDoNotFitTheirQueueAreDroppedAndCounted) {
  settings_.traffic.limits[static_cast<size_t>(TrafficClass::kEvent)] = {
      .requests_per_second = 1, .burst = 1, .in_progress = 1, .queued = 8};
  Begin();
  AddPods(50);
  Until([&] { return Bound() == 50 && service_->events().dropped > 0; });
  // One was sent at once, and as many as half of the queue wait to be sent one by one.
  EXPECT_GE(service_->events().dropped, 45u);
  EXPECT_TRUE(service_->idle()) << "events are not waited for at the end";
}

TEST_F(PodSchedulerServiceTest, WithTheRightsOfAnEarlierReleaseOnlyPodsWithClaimsWait) {
  for (const char* const path : {"/persistentvolume", "/storageclasses"}) {
    Fault refused;
    refused.path = path;
    refused.status = 403;
    refused.times = 1'000;
    server_->Inject(refused);
  }
  Begin();
  const Json volumes =
      Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}});
  Make("namespaces/ns/pods",
       {{"metadata", {{"name", "reads"}}},
        {"spec",
         {{"schedulerName", "longhaul"},
          {"volumes", volumes},
          {"containers", Json::array({{{"name", "main"}, {"image", "x"}}})}}}});
  AddPods(2);
  Until([&] { return Bound() == 2; });
  EXPECT_THAT(service_->scheduler().WhyNotBound("ns/reads"),
              HasSubstr("its role lacks the right to list and watch them"));
}

TEST_F(PodSchedulerServiceTest, AfterABurstOfBindsTheirEventsAreSentOneByOne) {
  Begin();
  const Instant begin = io::MonotonicNow();
  AddPods(100);
  Until([&] { return Bound() == 100; });
  Until([&] { return service_->events().written >= 3; });
  EXPECT_GE(io::MonotonicNow() - begin, std::chrono::milliseconds(200)) << "at most ten a second";
  EXPECT_EQ(service_->events().dropped, 0u);
}

TEST_F(PodSchedulerServiceTest, EventsAreWritten) {
  Begin();
  AddPods(3);
  Until([&] { return service_->events().written == 3; });
  EXPECT_EQ(server_->api().Names("events").size(), 3u);
  EXPECT_EQ(service_->events().dropped, 0u);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
