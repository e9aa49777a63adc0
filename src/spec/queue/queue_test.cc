#include "spec/queue/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::spec {
namespace {

using ::testing::HasSubstr;

SharedAmounts Unlimited(SharedAmounts amounts) {
  for (size_t r = kSharedResources; r < kQuotaDimensions; ++r) amounts[r] = kUnlimited;
  return amounts;
}

TEST(ParseQueues, ReadsEveryKey) {
  const auto queues = ParseQueues(R"(queues:
  - name: research
    guarantee: {accelerators: 64, cpu: 512.5, memory: 4TiB}
  - name: language
    parent: research
    guarantee: {accelerators: 32}
    limit: {accelerators: 96}
    lend: {accelerators: 0.125}
    weight: 2
    order: first-come
    reclaim: false
)",
                                  "q.yaml");
  ASSERT_TRUE(queues.ok()) << queues.status();
  ASSERT_EQ(queues->size(), 2u);
  EXPECT_EQ((*queues)[0].guarantee, (SharedAmounts{{64'000, 512'500, 4 << 20}}));
  EXPECT_EQ((*queues)[0].limit, kUnlimitedAmounts);
  const QueueSpec& language = (*queues)[1];
  EXPECT_EQ(language.parent, "research");
  EXPECT_EQ(language.limit, Unlimited({{96'000, kUnlimited, kUnlimited}}));
  EXPECT_EQ(language.lend[0], 125);
  EXPECT_EQ(language.weight, 2u);
  EXPECT_EQ(language.order, QueueOrder::kFirstCome);
  EXPECT_FALSE(language.reclaim);
}

TEST(ParseQueues, ReadsCardsAsAccelerators) {
  const auto queues = ParseQueues("queues: [{name: a, limit: {cards: 5}}]", "old.yaml");
  ASSERT_TRUE(queues.ok()) << queues.status();
  EXPECT_EQ((*queues)[0].limit, Unlimited({{5'000, kUnlimited, kUnlimited}}));
}

TEST(ParseQueues, ReadsWhoMaySubmitAndWhatEachUserMayHave) {
  const auto queues = ParseQueues(R"(queues:
  - name: research
    users: [alice, "bob@example.org"]
    per_user: {jobs: 100, running: 10, accelerators: 16, memory: 2GiB}
    max_run_time: 90min
  - {name: open}
)",
                                  "q.yaml");
  ASSERT_TRUE(queues.ok()) << queues.status();
  const QueueSpec& research = (*queues)[0];
  EXPECT_EQ(research.users, (std::vector<std::string>{"alice", "bob@example.org"}));
  EXPECT_EQ(research.per_user.jobs, 100u);
  EXPECT_EQ(research.per_user.running, 10u);
  EXPECT_EQ(research.per_user.amounts, Unlimited({{16'000, kUnlimited, 2'048}}));
  EXPECT_EQ(research.max_run_time, std::chrono::minutes(90));
  EXPECT_TRUE((*queues)[1].users.empty());
  EXPECT_EQ((*queues)[1].per_user, UserLimits());
  EXPECT_EQ((*queues)[1].max_run_time, Duration(0));
}

TEST(ParseQueues, ReadsQuotasOfDeviceModels) {
  const auto queues = ParseQueues(R"(queues:
  - name: research
    guarantee: {accelerators: 24, devices: {h100: 16, a100: 8}}
    limit: {devices: {h100: 32}}
    lend: {devices: {"a100": 0.5}}
    per_user: {jobs: 3, devices: {h100: 4}}
  - {name: none, guarantee: {accelerators: 1, devices: {v100: 0}}}
)",
                                  "q.yaml");
  ASSERT_TRUE(queues.ok()) << queues.status();
  const std::vector<ModelQuota>& models = (*queues)[0].models;
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0], (ModelQuota{"a100", 8'000, kUnlimited, 500, kUnlimited}));
  EXPECT_EQ(models[1], (ModelQuota{"h100", 16'000, 32'000, kUnlimited, 4'000}));
  EXPECT_TRUE((*queues)[1].models.empty()) << "nothing is no quota";
  EXPECT_EQ(QuotaModels(*queues), (std::vector<std::string>{"a100", "h100"}));
  const QueueSpec resolved = WithModelDimensions((*queues)[0], QuotaModels(*queues));
  EXPECT_EQ(resolved.guarantee, (SharedAmounts{{24'000, 0, 0, 8'000, 16'000}}));
  EXPECT_EQ(resolved.limit[4], 32'000);
  EXPECT_EQ(resolved.per_user.amounts[4], 4'000);
  const auto again = ParseQueues(ToYaml(*queues), "again");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *queues);
}

TEST(ParseQueues, RefusesQuotasOfDeviceModelsThatCannotBe) {
  const struct {
    const char* text;
    const char* message;
  } kRows[] = {
      {"{name: a, limit: {devices: 8}}", "devices must be a map of 1 to 5 device models"},
      {"{name: a, limit: {devices: {}}}", "devices must be a map of 1 to 5 device models"},
      {"{name: a, limit: {devices: {b: 1, c: 1, d: 1, e: 1, f: 1, g: 1}}}", "of 1 to 5 device"},
      {"{name: a, limit: {devices: {h100: many}}}", "h100: 'many' is not a number such as 8"},
      {"{name: a, limit: {devices: {h100: -1}}}", "h100: '-1' is not a number such as 8"},
      {"{name: a, limit: {devices: {h100: [1]}}}", "is not a number such as 8"},
      {"{name: a, limit: {devices: {'': 1}}}", "is not the name of a device model"},
      {"{name: a, limit: {device: {h100: 1}}}", "did you mean 'devices'?"},
      {"{name: a, guarantee: {devices: {h100: 8}}}",
       "its devices are guaranteed 8 accelerators together, but it is guaranteed only 0 "
       "accelerators: raise the guarantee of accelerators to 8 accelerators"},
      {"{name: a, guarantee: {accelerators: 8, devices: {h100: 8}}, limit: {devices: {h100: 4}}}",
       "guarantees 8 accelerators of model h100, above the limit of 4 accelerators of model h100"},
      {"{name: a, guarantee: {accelerators: 8, devices: {h100: 2}}}, "
       "{name: b, parent: a, guarantee: {accelerators: 8, devices: {h100: 3}}}",
       "its children are guaranteed 3 accelerators of model h100 together, but it has only 2"},
      {"{name: a, limit: {devices: {b: 1, c: 1, d: 1}}}, {name: h, limit: {devices: {e: 1, f: 1, "
       "g: 1}}}",
       "quotas for 6 device models, among them g; at most 5"},
  };
  for (const auto& row : kRows) {
    const auto queues = ParseQueues(std::string("queues: [") + row.text + "]", "q");
    ASSERT_FALSE(queues.ok()) << row.text;
    EXPECT_THAT(queues.status().message(), HasSubstr(row.message)) << row.text;
  }
}

TEST(ParseQueues, LetsAQueueNarrowItsUsers) {
  EXPECT_TRUE(ParseQueues("queues: [{name: a, users: [u, v]}, {name: b, parent: a, users: [v]}, "
                          "{name: c, parent: b}]",
                          "q")
                  .ok());
}

TEST(PathOf, LeadsFromAQueueToTheTop) {
  std::vector<QueueSpec> queues(3);
  queues[0].name = "a";
  queues[1].name = "b";
  queues[2].name = "c";
  queues[2].parent = "a";
  const auto path = PathOf(queues, "c");
  ASSERT_EQ(path.size(), 2u);
  EXPECT_EQ(path[0], &queues[2]);
  EXPECT_EQ(path[1], &queues[0]);
  EXPECT_TRUE(PathOf(queues, "d").empty());
  EXPECT_TRUE(PathOf(queues, "").empty());
}

TEST(ParseQueues, WritesWhatItReadsBack) {
  std::vector<QueueSpec> queues(2);
  queues[0].name = "a";
  queues[0].guarantee = {{1'001, 20, 7}};
  queues[1].name = "true";
  queues[1].parent = "a";
  queues[1].lend = Unlimited({{0, 5, 6}});
  queues[1].reclaim = false;
  queues[0].users = {"a$b\\c", "d"};
  queues[0].per_user = {7, 3, Unlimited({{1'500, kUnlimited, 9}})};
  queues[1].max_run_time = std::chrono::seconds(12'345'678);
  const auto again = ParseQueues(ToYaml(queues), "again");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, queues);
}

TEST(ParseQueues, RefusesWithLineAndReason) {
  const struct {
    const char* text;
    const char* want;
  } kRows[] = {
      {"queues: 3", "q:1: queues must be a list"},
      {"jobs: []", "q:1: unknown key 'jobs'"},
      {"queues:\n- weight: 1", "q:2: a queue lacks its 'name'"},
      {"queues:\n- name: a\n  wieght: 1", "q:3: unknown key 'wieght': did you mean 'weight'?"},
      {"queues:\n- name: a\n  weight: 0", "q:3: weight: '0' is not a whole number from 1"},
      {"queues:\n- name: a\n  guarantee: {accelerators: -1}",
       "q:3: accelerators: '-1' is not a number"},
      {"queues:\n- name: a\n  guarantee: {accelerators: 1.2345}", "at most three decimals"},
      {"queues:\n- name: a\n  guarantee: {accelerators: 99999999999999999999}", "is not a number"},
      {"queues:\n- name: a\n  limit: {memory: 5}", "is not a size such as 512GiB"},
      {"queues:\n- name: a b", "is not a name"},
      {"queues:\n- name: a\n  limit: {gpus: 5}", "unknown key 'gpus'"},
      {"queues:\n- name: a\n  order: random", "is not 'priority' or 'first-come'"},
      {"queues:\n- name: a\n  users: []", "q:3: users must be a list of 1 to 1,000 names"},
      {"queues:\n- name: a\n  users: alice", "q:3: users must be a list"},
      {"queues:\n- name: a\n  users: [a b]", "q:3: users: 'a b' is not a user's name"},
      {"queues:\n- name: a\n  users: [u, v, u]", "q:3: users: 'u' is named twice"},
      {"queues:\n- name: a\n  per_user: 3", "q:3: per_user must be a map"},
      {"queues:\n- name: a\n  per_user: {runing: 3}",
       "q:3: unknown key 'runing': did you mean 'running'?"},
      {"queues:\n- name: a\n  per_user: {jobs: 0}",
       "q:3: jobs: '0' is not a whole number from 1 to 1,000,000"},
      {"queues:\n- name: a\n  per_user: {running: 1.5}", "q:3: running: '1.5' is not a whole"},
      {"queues:\n- name: a\n  per_user: {cpu: x}", "q:3: cpu: 'x' is not a number"},
      {"queues:\n- name: a\n  max_run_time: 0s", "q:3: max_run_time: '0s' is not a whole number"},
      {"queues:\n- name: a\n  max_run_time: 1500ms", "is not a whole number of seconds"},
      {"queues:\n- name: a\n  max_run_time: 9999d", "to a year, such as 90min or 24h"},
      {"queues: [{name: a, users: [u]}, {name: b, parent: a}, {name: c, parent: b, users: [v]}]",
       "queue 'c': its users include 'v', whom queue 'a' above it does not admit"},
      {"queues: [{name: a}, {name: a}]", "queue 'a': there are two of this name"},
      {"queues: [{name: a, parent: b}]", "queue 'a': there is no parent 'b'"},
      {"queues: [{name: a, parent: b}, {name: b, parent: a}]", "circle: a -> b -> a"},
      {"queues: [{name: a, guarantee: {accelerators: 9}, limit: {accelerators: 8}}]",
       "queue 'a': guarantees 9 accelerators, above the limit of 8 accelerators"},
      {"queues: [{name: a, guarantee: {accelerators: 4}}, {name: b, parent: a, guarantee: "
       "{accelerators: 3}}, "
       "{name: c, parent: a, guarantee: {accelerators: 1.5}}]",
       "queue 'a': its children are guaranteed 4.5 accelerators together, but it has only 4 "
       "accelerators"},
  };
  for (const auto& row : kRows) {
    const auto queues = ParseQueues(row.text, "q");
    ASSERT_FALSE(queues.ok()) << row.text;
    EXPECT_THAT(queues.status().message(), HasSubstr(row.want)) << row.text;
  }
}

TEST(CheckQueues, RefusesATreeThatIsTooDeep) {
  std::vector<QueueSpec> queues(kMaxQueueDepth + 1);
  for (size_t i = 0; i < queues.size(); ++i) {
    queues[i].name = "q" + std::to_string(i);
    if (i > 0) queues[i].parent = "q" + std::to_string(i - 1);
  }
  EXPECT_THAT(CheckQueues(queues).message(), HasSubstr("queue 'q8': lies deeper than 8 levels"));
  queues.pop_back();
  EXPECT_TRUE(CheckQueues(queues).ok());
}

}  // namespace
}  // namespace longhaul::spec
