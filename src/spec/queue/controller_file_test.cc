#include "spec/queue/controller_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace longhaul::spec {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

TEST(ControllerFile, ReadsEveryKey) {
  const auto file = ParseControllerFile(R"(
cluster: clos.yaml
queues:
  - name: research
    guarantee: {accelerators: 8}
  - {name: language, parent: research, limit: {accelerators: 16}, weight: 2}
default_queue: language
priorities: {low: -100, high: 100}
scheduling:
  preemption: false
  backfill: false
  reservations: 2
  evictions_a_day: 0
  aging_period: 1h
  longest_wait: 36h
  reservation_idle: 40%
  fair_share: history
  usage_half_life: 2d
  elastic_period: 90s
  repair_patience: 2min
  snapshot_patience: 5s
  check_new_nodes: true
)",
                                        "c.yaml");
  ASSERT_TRUE(file.ok()) << file.status();
  ControllerSpec want;
  want.cluster_file = "clos.yaml";
  want.queues.resize(2);
  want.queues[0].name = "research";
  want.queues[0].guarantee[0] = 8'000;
  want.queues[1].name = "language";
  want.queues[1].parent = "research";
  want.queues[1].limit[0] = 16'000;
  want.queues[1].weight = 2;
  want.default_queue = "language";
  want.priorities = {{"low", -100}, {"high", 100}};
  want.preemption = want.backfill = false;
  want.reservations = 2;
  want.evictions_a_day = 0;
  want.aging_period = hours(1);
  want.longest_wait = hours(36);
  want.reservation_idle_percent = 40;
  want.fair_share_history = true;
  want.usage_half_life = hours(48);
  want.elastic_period = seconds(90);
  want.repair_patience = minutes(2);
  want.snapshot_patience = seconds(5);
  want.check_new_nodes = true;
  EXPECT_EQ(*file, want);
}

TEST(ControllerFile, AnEmptyTextIsTheStandard) {
  const auto file = ParseControllerFile(" \n", "c.yaml");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*file, ControllerSpec());
}

TEST(ControllerFile, NamesTheLineTheValueAndTheRemedy) {
  const struct {
    const char* text;
    const char* says;
  } kRows[] = {
      {"queus: []", "c.yaml:1: unknown key 'queus': did you mean 'queues'?"},
      {"scheduling:\n  premption: true", "c.yaml:2: unknown key 'premption': did you mean"},
      {"scheduling: 3", "c.yaml:1: scheduling: '3' is not a map"},
      {"scheduling: {reservations: 0}", "'0' is not a whole number from 1 to 10,000"},
      {"scheduling: {longest_wait: 0s}", "'0s' is not a time such as 30s"},
      {"scheduling: {fair_share: past}", "'past' is not 'present' or 'history'"},
      {"scheduling: {usage_half_life: 0s}", "'0s' is not a time such as 30s"},
      {"scheduling: {reservation_idle: 0%}", "'0%' is not a whole percentage from 1% to 1000%"},
      {"scheduling: {reservation_idle: 25}", "'25' is not a whole percentage from 1% to 1000%"},
      {"scheduling: {reservation_idle: 1001%}", "'1001%' is not a whole percentage"},
      {"scheduling: {reservation_idle: [25%]}", "this is not a whole percentage"},
      {"scheduling: {aging_period: soon}", "'soon' is not a time such as 30s"},
      {"scheduling: {preemption: maybe}", "'maybe' is not 'true' or 'false'"},
      {"priorities: {high: 2000000}", "'2000000' is not a whole number"},
      {"priorities: {1st: 1}", "'1st' is not a priority's name"},
      {"default_queue: lab", "c.yaml:1: default_queue: there is no queue 'lab'"},
      {"queues:\n  - {name: a, parent: b}\n  - {name: b, parent: a}", "circle"},
      {"queues:\n  - {name: a, guarantee: {accelerators: 4}, limit: {accelerators: 2}}",
       "guarantee"},
      {"- 1", "c.yaml:1: expected a map"},
  };
  for (const auto& row : kRows) {
    const auto file = ParseControllerFile(row.text, "c.yaml");
    ASSERT_FALSE(file.ok()) << row.text;
    EXPECT_EQ(file.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(file.status().message(), HasSubstr(row.says)) << row.text;
  }
}

TEST(ControllerFile, NamesTheFilesOfTls) {
  const auto spec = ParseControllerFile("tls: {certificate: a.crt, key: a.key, ca: ca.crt}", "c");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->tls, (TlsFiles{"a.crt", "a.key", "ca.crt"}));
  for (const char* bad : {"tls: yes", "tls: {certificate: a.crt, key: a.key}",
                          "tls: {certificate: [a], key: a, ca: a}",
                          "tls: {certificate: a, key: a, ca: a, password: x}"}) {
    const Status refused = ParseControllerFile(bad, "c").status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument) << bad;
    EXPECT_TRUE(refused.message().starts_with("c:1: ")) << refused;
  }
}

}  // namespace
}  // namespace longhaul::spec
