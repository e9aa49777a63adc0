#include "runtime/scheduling/queue_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/queue_report.h"

namespace longhaul::runtime::scheduling {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

spec::ControllerSpec File() {
  auto file = spec::ParseControllerFile(R"(
queues:
  - {name: lab, users: [alice, bob], max_run_time: 24h, per_user: {accelerators: 8}}
  - {name: short, parent: lab, users: [bob], max_run_time: 1h, limit: {accelerators: 4}}
  - {name: open}
default_queue: lab
)",
                                        "controller.yaml");
  EXPECT_TRUE(file.ok()) << file.status();
  return *file;
}

proto::Job Of(const std::string& user, const std::string& queue) {
  proto::Job job;
  job.mutable_scheduling()->set_owner(user);
  job.mutable_scheduling()->set_queue(queue);
  return job;
}

scheduler::JobRequest Asking(const std::string& queue, int32_t nodes, uint8_t gpus) {
  scheduler::JobRequest request;
  request.queue = queue;
  request.groups.emplace_back();
  request.groups[0].shape.gpus = gpus;
  request.groups[0].minimum = request.groups[0].desired = nodes;
  return request;
}

TEST(QueueRules, AJobThatNamesNoQueueIsInTheDefaultOne) {
  const spec::ControllerSpec file = File();
  const auto queues = QueuesOf(file, Of("alice", ""));
  ASSERT_EQ(queues.size(), 1u);
  EXPECT_EQ(queues[0]->name, "lab");
  EXPECT_EQ(QueuesOf(file, Of("bob", "short")).size(), 2u);
  EXPECT_THAT(QueuesOf(spec::ControllerSpec(), Of("alice", "")), IsEmpty());
}

TEST(QueueRules, EveryQueueAboveHasToAdmitTheUser) {
  const spec::ControllerSpec file = File();
  EXPECT_TRUE(CheckRights(file, Of("bob", "short")).ok());
  EXPECT_TRUE(CheckRights(file, Of("", "open")).ok());
  EXPECT_THAT(CheckRights(file, Of("alice", "short")).message(),
              HasSubstr("user 'alice' may not submit to queue 'short'"));
  const Status nobody = CheckRights(file, Of("", "lab"));
  EXPECT_EQ(nobody.code(), Code::kPermissionDenied);
  EXPECT_THAT(nobody.message(), HasSubstr("a submission that names no user"));
}

TEST(QueueRules, TheShortestRunTimeOfTheQueuesAboveApplies) {
  const spec::ControllerSpec file = File();
  EXPECT_EQ(RunTimeQueueOf(file, Of("bob", "short"))->name, "short");
  EXPECT_EQ(RunTimeQueueOf(file, Of("bob", "lab"))->name, "lab");
  EXPECT_EQ(RunTimeQueueOf(file, Of("bob", "open")), nullptr);
  proto::Job longer = Of("bob", "short");
  longer.mutable_scheduling()->set_expected_ns(Duration(std::chrono::hours(2)).count());
  EXPECT_THAT(CheckRights(file, longer).message(), HasSubstr("queue 'short' ends jobs"));
  longer.mutable_scheduling()->set_queue("lab");
  EXPECT_TRUE(CheckRights(file, longer).ok());
}

TEST(QueueRules, AJobThatAloneExceedsALimitIsRefused) {
  const std::vector<spec::QueueSpec> queues = File().queues;
  EXPECT_TRUE(CheckLimits(queues, Asking("short", 1, 4)).ok());
  EXPECT_THAT(CheckLimits(queues, Asking("short", 2, 4)).message(),
              HasSubstr("it needs 8 accelerators, but queue 'short' is limited to 4 accelerators"));
  EXPECT_THAT(
      CheckLimits(queues, Asking("lab", 3, 4)).message(),
      HasSubstr("it needs 12 accelerators, but queue 'lab' allows each user 8 accelerators"));
  EXPECT_TRUE(CheckLimits(queues, Asking("open", 3, 4)).ok());
  EXPECT_TRUE(CheckLimits(queues, Asking("", 3, 4)).ok());
}

TEST(QueueRules, ALimitOfAnOperatorReplacesThoseThatItNames) {
  spec::QueueSpec queue;
  queue.limit = {{1'000, 2'000, 1'024}};
  queue.models = {{"a100", 0, 5'000}, {"v100", 0, 6'000}};
  proto::Amounts limit;
  limit.set_accelerators(2.5);
  limit.set_cpu(-1);
  limit.set_memory_gib(1);
  const auto add = [&limit](const char* model, double amount) {
    limit.add_devices()->set_model(model);
    limit.mutable_devices(limit.devices_size() - 1)->set_accelerators(amount);
  };
  add("v100", -1);
  add("h100", 8);
  ApplyLimit(limit, queue);
  EXPECT_EQ(queue.limit[0], 2'500);
  EXPECT_EQ(queue.limit[1], spec::kUnlimited);
  EXPECT_EQ(queue.limit[2], 1'024);
  EXPECT_EQ(queue.models,
            (std::vector<spec::ModelQuota>{{"a100", 0, 5'000}, {"h100", 0, 8'000}, {"v100"}}));
}

TEST(QueueReport, AmountsAreInTheUnitsOfClients) {
  const proto::Amounts amounts =
      AmountsOf({{1'500, spec::kUnlimited, 512, 250, spec::kUnlimited}}, {"a100", "h100"});
  EXPECT_EQ(amounts.accelerators(), 1.5);
  EXPECT_EQ(amounts.cpu(), -1);
  EXPECT_EQ(amounts.memory_gib(), 0.5);
  ASSERT_EQ(amounts.devices_size(), 2);
  EXPECT_EQ(amounts.devices(0).model(), "a100");
  EXPECT_EQ(amounts.devices(0).accelerators(), 0.25);
  EXPECT_EQ(amounts.devices(1).accelerators(), -1);
}

TEST(QueueReport, DescribesUseAndWhatEachUserHolds) {
  scheduler::QueueView view;
  view.name = "lab";
  view.guarantee = {{2'000, 0, 0}};
  view.usage = {{6'000, 1'000, 0}};
  view.waiting = 3;
  view.users = {{"alice", {{6'000, 1'000, 0}}, 2}};
  const std::vector<std::string> no_models;
  const QueueReportContext cluster{{{8'000, 10'000, 0}}, no_models};
  const spec::ControllerSpec file = File();
  const proto::QueueStatus queue = DescribeQueue(view, cluster, &file.queues[0]);
  EXPECT_EQ(queue.borrowed().accelerators(), 4);
  EXPECT_EQ(queue.borrowed().cpu(), 1);
  EXPECT_EQ(queue.share(), 0.75) << "the largest share of one resource";
  EXPECT_EQ(queue.waiting(), 3u);
  EXPECT_EQ(queue.users_size(), 2);
  EXPECT_EQ(queue.per_user().jobs(), -1);
  EXPECT_EQ(queue.per_user().amounts().accelerators(), 8);
  ASSERT_EQ(queue.held_size(), 1);
  EXPECT_EQ(queue.held(0).running(), 2u);
  EXPECT_FALSE(DescribeQueue(view, cluster, nullptr).has_per_user());
  EXPECT_FALSE(DescribeQueue(view, cluster, &file.queues[2]).has_per_user());
}

TEST(QueueReport, ALimitOfAModelForEachUserIsShown) {
  scheduler::QueueView view;
  view.users = {{"alice", {{2'000, 0, 0, 2'000}}, 1}};
  spec::QueueSpec declared;
  declared.models = {{"h100", 0, spec::kUnlimited, spec::kUnlimited, 4'000}};
  const std::vector<std::string> models = {"h100"};
  const proto::QueueStatus queue = DescribeQueue(view, {{}, models}, &declared);
  EXPECT_EQ(queue.per_user().amounts().devices(0).accelerators(), 4);
  EXPECT_EQ(queue.held(0).amounts().devices(0).accelerators(), 2);
}

}  // namespace
}  // namespace longhaul::runtime::scheduling
