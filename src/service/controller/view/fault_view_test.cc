#include "service/controller/view/fault_view.h"

#include <gtest/gtest.h>

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kHappened_ns = 1'700'000'000'000'000'000;

// Two faults; the second one costs 12 rank seconds of 4 workers.
story::Story TwoFaults() {
  story::Story story;
  story.job_id = "gpt-1";
  for (uint32_t number = 1; number <= 2; ++number) {
    story::FaultStory& fault = story.faults.emplace_back();
    fault.number = number;
    fault.what = "worker 1 was ended by signal 9";
    fault.happened_at_ns = kHappened_ns;
    fault.observations.push_back({kHappened_ns + 2'000'000, "Worker 1 ended."});
    fault.stages.push_back({"detected", 0.25, 0.25, 0.001});
    fault.stacks.push_back({3, "node-1", {"recv", "step"}});
    fault.cost_seconds = 3;
    fault.lost_rank_seconds = 12;
  }
  story.notes = {"One line is missing."};
  return story;
}

TEST(FaultView, HasTheStagesTheEvidenceAndWhatIsMissing) {
  const story::Story story = TwoFaults();
  const Json view = FaultViewJson(story, story.faults[1], proto::JobStatus(), Instant());
  EXPECT_EQ(view["faults_total"], 2);
  EXPECT_EQ(view["fault"]["number"], 2);
  EXPECT_EQ(view["fault"]["happened_at_ms"], kHappened_ns / 1'000'000);
  EXPECT_EQ(view["fault"]["stages"][0]["name"], "detected");
  EXPECT_EQ(view["fault"]["stages"][0]["budget_seconds"], 0.001);
  EXPECT_DOUBLE_EQ(view["fault"]["observations"][0]["after_seconds"].get<double>(), 0.002);
  EXPECT_EQ(view["fault"]["stacks"][0]["calls"], Json({"recv", "step"}));
  EXPECT_EQ(view["notes"], Json({"One line is missing."}));
}

TEST(FaultView, CountsTheAcceleratorsOfEachWorker) {
  const story::Story story = TwoFaults();
  proto::JobStatus status;
  status.mutable_job()->set_processes_per_node(2);
  const auto cost = [&] {
    return FaultViewJson(story, story.faults[0], status,
                         Instant())["fault"]["lost_accelerator_seconds"];
  };
  EXPECT_TRUE(cost().is_null()) << "no devices are assigned";
  for (int node = 0; node < 2; ++node) {
    proto::NodeDevices& devices = *status.add_devices();
    for (uint32_t device = 0; device < 4; ++device) devices.add_devices(device);
  }
  EXPECT_EQ(cost(), 24) << "12 rank seconds with two devices each";
  status.mutable_job()->set_processes_per_node(4);
  status.mutable_job()->mutable_scheduling()->set_share_milli(250);
  EXPECT_EQ(cost(), 3) << "a quarter of one device";
}

}  // namespace
}  // namespace longhaul::service
