#include "service/controller/view/run_view.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

proto::Notification StepAt(int64_t second, uint64_t step, double loss) {
  proto::Notification notification;
  notification.set_at_ns(second * 1'000'000'000);
  notification.mutable_step()->set_step(step);
  notification.mutable_step()->set_loss(loss);
  notification.mutable_step()->set_has_loss(true);
  notification.mutable_step()->set_total_steps(100);
  return notification;
}

RunViewInput RunAtStep(uint64_t step) {
  RunViewInput input;
  input.status.mutable_job()->set_id("gpt-1");
  input.status.mutable_job()->set_processes_per_node(2);
  input.status.set_state(proto::RUNNING);
  input.status.set_step(step);
  input.status.set_seconds_per_step(0.5);
  input.past.history.Take(StepAt(100, step, 2.25));
  input.past.as_of = 9'007'199'254'740'993;  // 2^53 + 1: no number of JavaScript
  input.now = InstantFromNanoseconds(101'500'000'000);
  return input;
}

TEST(RunView, WritesTheIdOfTheLastEventAsAText) {
  EXPECT_EQ(RunViewJson(RunAtStep(10))["as_of"], "9007199254740993");
}

// Worked by hand: 10 - 6 steps of 0.5 s, and 1.5 s since the last step.
TEST(RunView, CountsTheStepsSinceTheNewestSnapshotAsLostByAFaultNow) {
  RunViewInput input = RunAtStep(10);
  input.status.set_memory_step(6);
  input.status.set_committed_step(4);
  const Json loss = RunViewJson(input)["loss_now"];
  EXPECT_EQ(loss["steps"], 4);
  EXPECT_EQ(loss["tier"], "memory");
  EXPECT_DOUBLE_EQ(loss["seconds"].get<double>(), 3.5);
  input.status.set_memory_step(0);
  EXPECT_EQ(RunViewJson(input)["loss_now"]["tier"], "disk");
  input.status.set_committed_step(0);
  EXPECT_EQ(RunViewJson(input)["loss_now"]["tier"], "none");
  EXPECT_EQ(RunViewJson(input)["loss_now"]["steps"], 10);
  input.status.set_state(proto::SUCCEEDED);
  EXPECT_TRUE(RunViewJson(input)["loss_now"].is_null());
}

// JSON has no NaN: a page must not show a diverged run as one without a loss.
TEST(RunView, ShowsALossThatIsNotFiniteAsAMark) {
  RunViewInput input = RunAtStep(10);
  input.past.history.Take(StepAt(101, 11, std::nan("")));
  const Json loss = RunViewJson(input)["series"]["loss"];
  EXPECT_EQ(loss["not_finite"], Json({0, 1}));
  EXPECT_TRUE(loss["last"][1].is_null());
  EXPECT_EQ(loss["index"], Json({0, 10})) << "periods of 100 ms";
  EXPECT_FALSE(Json::parse(RunViewJson(input).dump()).is_discarded());
}

// Two nodes with two workers each, and half of an accelerator for each worker.
TEST(RunView, HasWhatTheCostIsCountedIn) {
  RunViewInput input = RunAtStep(10);
  for (const char* node : {"node-1", "node-2"}) input.status.add_gang(node);
  EXPECT_EQ(RunViewJson(input)["run"]["ranks"], 4);
  EXPECT_TRUE(RunViewJson(input)["run"]["accelerators_per_rank"].is_null());
  for (int i = 0; i < 2; ++i) input.status.add_devices()->add_devices(0);
  EXPECT_EQ(RunViewJson(input)["run"]["accelerators_per_rank"], 0.5);
  input.status.mutable_job()->mutable_prediction()->set_step_seconds(0.4);
  EXPECT_EQ(RunViewJson(input)["run"]["predicted_step_seconds"], 0.4);
}

TEST(RunView, HasTheBoundsOfAnElasticJobAndItsLimit) {
  RunViewInput input = RunAtStep(10);
  EXPECT_TRUE(RunViewJson(input)["run"]["size"].is_null());
  proto::Job& job = *input.status.mutable_job();
  job.set_nodes(2);
  job.set_minimum_nodes(1);
  job.set_maximum_nodes(4);
  Json size = {{"minimum", 1}, {"maximum", 4}, {"step", 1}, {"limit", 4}};
  EXPECT_EQ(RunViewJson(input)["run"]["size"], size);
  job.set_node_limit(2);
  size["limit"] = 2;
  EXPECT_EQ(RunViewJson(input)["run"]["size"], size);
}

// Where a ledger of an older moment is in the log, and the present one has an open step.
TEST(RunView, HasTheLedgerOverTimeWithTheSumsOfThePresentLedger) {
  RunViewInput input = RunAtStep(10);
  EXPECT_TRUE(RunViewJson(input)["spent_time"].is_null()) << "a log without sums";
  proto::Notification noted = StepAt(101, 11, 2);
  proto::CategoryTime& first = *noted.mutable_ledger()->add_categories();
  first.set_category(proto::START_UP_TIME);
  first.set_rank_seconds(4);
  input.past.history.Take(noted);
  for (const auto& [category, seconds] :
       {std::pair(proto::START_UP_TIME, 4.0), std::pair(proto::PRODUCTIVE, 2.0)}) {
    proto::CategoryTime& each = *input.status.mutable_ledger()->add_categories();
    each.set_category(category);
    each.set_rank_seconds(seconds);
  }
  const Json spent = RunViewJson(input)["spent_time"];
  EXPECT_EQ(spent["from_ms"], 100'000);
  EXPECT_EQ(spent["width_ms"], 1'000);
  EXPECT_EQ(spent["periods"], 2);
  EXPECT_EQ(spent["categories"], Json::parse(R"([
      {"category": "productive", "rank_seconds": [0.0, 2.0]},
      {"category": "start_up_time", "rank_seconds": [4.0, 0.0]}])"));
}

TEST(RunView, HasTheWorkOfRanksAsTwoDigitsForEach) {
  RunViewInput input = RunAtStep(10);
  EXPECT_TRUE(RunViewJson(input)["rank_work"].is_null());
  proto::Notification noted = StepAt(102, 11, 2);
  proto::RankWork& entry = *noted.mutable_rank_work();
  entry.set_ranks_per_group(1);
  for (const uint32_t work_us : {1'000u, 3'000u, 0u}) entry.add_work_us(work_us);
  for (const uint32_t rank : {0u, 1u, 2u}) entry.add_slowest(rank);
  input.past.history.Take(noted);
  const Json work = RunViewJson(input)["rank_work"];
  EXPECT_EQ(work["columns"], Json({"329600"}));
  EXPECT_EQ(work["index"], Json({2}));
  EXPECT_EQ(work["median_us"], 1'000);
  EXPECT_EQ(work["slowest"], Json({0, 1, 2}));
}

TEST(RunView, LeavesTheCurvesOutOnRequest) {
  RunViewInput input = RunAtStep(10);
  input.with_series = false;
  EXPECT_FALSE(RunViewJson(input).contains("series"));
}

TEST(RunView, CutsItsListsAndNamesTheirLength) {
  RunViewInput input = RunAtStep(10);
  for (int i = 0; i < 5'000; ++i) {
    input.status.add_gang("node-" + std::to_string(i));
    input.status.add_faults()->set_number(static_cast<uint32_t>(i + 1));
  }
  const Json view = RunViewJson(input);
  EXPECT_EQ(view["nodes"].size(), 200u);
  EXPECT_EQ(view["nodes_total"], 5'000);
  EXPECT_EQ(view["nodes"][3]["first_rank"], 6);
  EXPECT_EQ(view["nodes"][3]["condition"], "absent") << "the node has left";
  EXPECT_EQ(view["faults"].back()["number"], 5'000) << "the newest ones are kept";
  EXPECT_LT(view.dump().size(), 150'000u);
}

}  // namespace
}  // namespace longhaul::service
