// What-if questions on the controller's scheduler, and that it does not change.
#include "runtime/scheduling/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/cluster_fixture.h"

namespace longhaul::runtime::scheduling_testing::what_if_test {
namespace {

using scheduling::AnswerWhatIf;
using scheduling::ParseWhatIfChange;
using scheduling::WhatIfAnswer;
using scheduling::WhatIfChange;
using scheduling::WhatIfOptions;
using scheduling::WhatIfRow;
using std::chrono::hours;
using std::chrono::minutes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kConfiguration = R"(
cluster: cluster.yaml
queues:
  - {name: red, guarantee: {accelerators: 2}}
  - {name: blue, guarantee: {accelerators: 2}, limit: {accelerators: 2}}
default_queue: red
scheduling: {repair_patience: 5min}
)";
const std::string kRacks = R"(
levels: [rack]
models: {H100: {memory: 80GiB}, V100: {memory: 16GiB}}
kinds:
  new: {model: H100, devices: 2, cpu: 8, memory: 64GiB}
  old: {model: V100, devices: 2, cpu: 8, memory: 64GiB}
nodes:
  - {name: node-1, kind: new, at: {rack: rack-1}}
  - {name: node-2, kind: new, at: {rack: rack-1}}
  - {name: node-3, kind: old, at: {rack: rack-2}}
)";

proto::Job For(proto::Job job, Duration expected) {
  job.mutable_scheduling()->set_expected_ns(expected.count());
  return job;
}

class WhatIf : public testing::Test {
 protected:
  WhatIf() : cluster_(kConfiguration, kRacks) {
    for (const char* node : {"node-1", "node-2", "node-3"}) cluster_.Join(node);
  }

  Result<WhatIfAnswer> Try(const std::vector<std::string>& texts, const WhatIfOptions& options = {},
                           const std::vector<proto::Job>& submitted = {}) {
    std::vector<WhatIfChange> changes;
    for (const std::string& text : texts) {
      ASSIGN_OR_RETURN(WhatIfChange change, ParseWhatIfChange(text));
      changes.push_back(std::move(change));
    }
    for (const proto::Job& job : submitted) {
      WhatIfChange change;
      change.kind = WhatIfChange::Kind::kSubmit;
      change.job = job;
      changes.push_back(change);
    }
    const uint64_t before = cluster_.controller.StateHash();
    auto answer =
        AnswerWhatIf(*cluster_.controller.CopyScheduler(), changes, cluster_.now, options);
    EXPECT_EQ(cluster_.controller.StateHash(), before);
    return answer;
  }
  WhatIfAnswer Ask(const std::vector<std::string>& texts, const WhatIfOptions& options = {},
                   const std::vector<proto::Job>& submitted = {}) {
    auto answer = Try(texts, options, submitted);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : WhatIfAnswer();
  }
  std::string Refusal(const std::string& text) {
    return std::string(Try({text}).status().message());
  }

  static std::vector<std::string> Effects(const WhatIfAnswer& answer) {
    std::vector<std::string> texts;
    for (const WhatIfRow& row : answer.rows) {
      texts.push_back(row.job + " " + std::string(NameOf(row.effect)));
    }
    return texts;
  }

  Cluster cluster_;
};

TEST_F(WhatIf, ADrainedRackStopsItsJobsOrMovesThem) {
  cluster_.Submit(For(Gang("one", 1), hours(3)));
  ASSERT_THAT(cluster_.GangOf("one"), ElementsAre("node-1"));
  // Another node is free.
  const WhatIfAnswer moved = Ask({"drain node-1"});
  ASSERT_THAT(Effects(moved), ElementsAre("one moved"));
  EXPECT_EQ(moved.rows[0].after, cluster_.now);
  EXPECT_EQ(moved.jobs, 1u);
  EXPECT_FALSE(moved.cut);
  EXPECT_EQ(moved.until, cluster_.now + hours(24));
  // Nothing else has an H100: after the patience it waits.
  cluster_.Stop("one");
  proto::Job pair = For(Gang("pair", 2), hours(3));
  pair.mutable_scheduling()->add_devices("H100");
  cluster_.Submit(pair);
  ASSERT_EQ(cluster_.StateOf("pair"), proto::RUNNING);
  const WhatIfAnswer stopped = Ask({"drain rack-1"});
  ASSERT_THAT(Effects(stopped), ElementsAre("pair stopped"));
  EXPECT_EQ(stopped.rows[0].after, cluster_.now + minutes(5));
  EXPECT_EQ(stopped.rows[0].resumes, std::nullopt);
  EXPECT_THAT(Effects(Ask({"drain rack-2"})), IsEmpty());
}

TEST_F(WhatIf, ADrainedNodeOfASpreadJobIsReplacedOnlyWhereItsBoundAllows) {
  proto::Job pair = For(Gang("pair", 2), hours(3));
  pair.mutable_scheduling()->set_mixed_devices(true);
  pair.mutable_scheduling()->set_spread_level("rack");
  pair.mutable_scheduling()->set_spread_at_most(1);
  cluster_.Submit(pair);
  ASSERT_THAT(cluster_.GangOf("pair"), testing::UnorderedElementsAre("node-1", "node-3"));
  EXPECT_THAT(Effects(Ask({"drain node-1"})), ElementsAre("pair moved"));
  // Both nodes of rack-1 are up, but one of them is too many.
  EXPECT_THAT(Effects(Ask({"drain node-3"})), ElementsAre("pair stopped"));
}

TEST_F(WhatIf, EveryNodeOfADomainIsDrained) {
  for (const char* id : {"one", "two"}) {
    proto::Job job = For(Gang(id, 1), hours(3));
    job.mutable_scheduling()->add_devices("H100");
    cluster_.Submit(job);
  }
  EXPECT_THAT(Effects(Ask({"drain rack rack-1"})), ElementsAre("one stopped", "two stopped"));
}

TEST_F(WhatIf, AStoppedJobContinuesWhereItWas) {
  const struct {
    const char* id;
    Duration expected;
  } kJobs[] = {{"one", hours(3)}, {"two", hours(1)}, {"three", hours(3)}};
  for (const auto& each : kJobs) {
    proto::Job job = For(Gang(each.id, 1), each.expected);
    job.mutable_scheduling()->add_devices("H100");
    cluster_.Submit(job);
  }
  ASSERT_THAT(cluster_.GangOf("one"), ElementsAre("node-1"));
  // "one" leaves after five minutes of its three hours, and continues when "two" has ended.
  const WhatIfAnswer answer = Ask({"drain node-1"});
  ASSERT_THAT(Effects(answer), ElementsAre("one stopped", "three starts-later"));
  EXPECT_EQ(answer.rows[0].after, cluster_.now + minutes(5));
  EXPECT_EQ(answer.rows[0].resumes, cluster_.now + hours(1));
  EXPECT_EQ(answer.rows[1].before, cluster_.now + hours(1));
  EXPECT_EQ(answer.rows[1].after, cluster_.now + hours(4) - minutes(5));
}

TEST_F(WhatIf, AddedDevicesLetAJobStartNow) {
  proto::Job first = For(Gang("first", 2), hours(3));
  proto::Job second = For(Gang("second", 2), hours(3));
  for (proto::Job* job : {&first, &second}) job->mutable_scheduling()->add_devices("H100");
  cluster_.Submit(first);
  cluster_.Submit(second);
  ASSERT_EQ(cluster_.StateOf("second"), proto::QUEUED);
  const WhatIfAnswer answer = Ask({"add 4 h100"});
  ASSERT_THAT(Effects(answer), ElementsAre("second starts-now"));
  EXPECT_EQ(answer.rows[0].before, cluster_.now + hours(3));
  EXPECT_EQ(answer.rows[0].after, cluster_.now);
  EXPECT_THAT(answer.unknown, IsEmpty());
  // One node is not enough, and another model is of no use.
  EXPECT_THAT(Effects(Ask({"add 2 H100"})), IsEmpty());
  EXPECT_THAT(Effects(Ask({"add 4 V100"})), IsEmpty());
  EXPECT_THAT(Effects(Ask({"add 2 H100 in rack-1", "add 2 H100"})),
              ElementsAre("second starts-now"));
  EXPECT_THAT(Effects(Ask({"add 2 H100 per-node 1"})), IsEmpty());
}

TEST_F(WhatIf, AStoppedJobLetsAnotherStartNowAndItsFollowersEarlier) {
  for (const char* id : {"a", "b", "c"}) {
    proto::Job job = For(Gang(id, 2), hours(2));
    job.mutable_scheduling()->add_devices("H100");
    cluster_.Submit(job);
  }
  const WhatIfAnswer answer = Ask({"stop a"});
  EXPECT_THAT(Effects(answer), ElementsAre("b starts-now", "c starts-earlier"));
  EXPECT_EQ(answer.rows[1].before, cluster_.now + hours(4));
  EXPECT_EQ(answer.rows[1].after, cluster_.now + hours(2));
}

TEST_F(WhatIf, ASubmittedJobHasAStartAndDelaysOthers) {
  for (const char* id : {"a", "b"}) {
    proto::Job job = For(Gang(id, 2), hours(2));
    job.mutable_scheduling()->add_devices("H100");
    cluster_.Submit(job);
  }
  proto::Job urgent = WithPriority(For(Gang("urgent", 2), hours(1)), 10);
  urgent.mutable_scheduling()->add_devices("H100");
  const WhatIfAnswer answer = Ask({}, {}, {urgent});
  EXPECT_THAT(Effects(answer), ElementsAre("a stopped", "b starts-later", "urgent new"));
  EXPECT_EQ(answer.rows[2].after, cluster_.now);
  EXPECT_EQ(answer.rows[0].after, cluster_.now);
  EXPECT_EQ(answer.rows[0].resumes, cluster_.now + hours(1));
  EXPECT_EQ(answer.rows[1].after, cluster_.now + hours(3));
}

TEST_F(WhatIf, AQueuesLimitAndGuaranteeDecideWhoStarts) {
  cluster_.Submit(InQueue(For(Gang("b1", 1), hours(2)), "blue"));
  cluster_.Submit(InQueue(For(Gang("b2", 1), hours(2)), "blue"));
  ASSERT_EQ(cluster_.StateOf("b2"), proto::QUEUED);
  EXPECT_THAT(Effects(Ask({"queue blue limit 4"})), ElementsAre("b2 starts-now"));
  EXPECT_THAT(Effects(Ask({"queue blue limit none"})), ElementsAre("b2 starts-now"));
  EXPECT_THAT(Effects(Ask({"queue blue limit 2"})), IsEmpty());
  EXPECT_THAT(Effects(Ask({"queue red guarantee 4"})), IsEmpty());
  EXPECT_THAT(Refusal("queue blue limit 1"), HasSubstr("is guaranteed 2"));
  EXPECT_THAT(Refusal("queue red guarantee 5"), HasSubstr("queue red guarantee 5: "));
}

TEST_F(WhatIf, UnknownDurationsAreNamedAndTheHorizonAndRoundsAreLimits) {
  cluster_.Submit(Gang("guess", 2));
  const WhatIfAnswer answer = Ask({"add 2 H100"});
  EXPECT_THAT(answer.unknown, ElementsAre("guess"));
  for (int i = 0; i < 12; ++i) {
    cluster_.Submit(For(Gang("job-" + std::to_string(i), 2, 1), hours(2)));
  }
  WhatIfOptions brief;
  brief.horizon = hours(3);
  const WhatIfAnswer near = Ask({"stop guess"}, brief);
  EXPECT_EQ(near.until, cluster_.now + hours(3));
  EXPECT_LT(near.rounds, Ask({"stop guess"}).rounds) << "nothing is played beyond the horizon";
  for (const WhatIfRow& row : near.rows) {
    EXPECT_LE(row.after.value_or(near.until), near.until);
  }
  WhatIfOptions few;
  few.rounds = 2;
  const WhatIfAnswer cut = Ask({"stop guess"}, few);
  EXPECT_TRUE(cut.cut);
  EXPECT_LT(cut.until, cluster_.now + hours(24));
  WhatIfOptions late;
  late.expired = [] { return true; };
  EXPECT_TRUE(Ask({"stop guess"}, late).cut);
}

TEST_F(WhatIf, NamesThatDoNotExistAreRefusedWithTheNearest) {
  cluster_.Submit(Gang("train-1", 1));
  const struct {
    const char* change;
    const char* part;
  } kRows[] = {
      {"drain rack-9", "drain rack-9: there is no node or domain 'rack-9', did you mean 'rack-1'?"},
      {"drain nod-3", "did you mean 'node-3'?"},
      {"drain block rack-1", "there is no node or domain 'rack-1' of level 'block'"},
      {"add 8 H10", "the cluster file declares no device model 'H10', did you mean 'H100'?"},
      {"add 8 B200", "the cluster file declares no device model 'B200'"},
      {"add 3 H100", "3 devices are not whole nodes of 2; write per-node K"},
      {"add 8 H100 in rack-8", "there is no leaf 'rack-8', did you mean"},
      {"add 200000 H100", "add 200000 H100: "},
      {"queue rad limit 3", "there is no queue 'rad', did you mean 'red'?"},
      {"stop train-2", "no live job with the id 'train-2', did you mean 'train-1'?"},
  };
  for (const auto& row : kRows) EXPECT_THAT(Refusal(row.change), HasSubstr(row.part));
  Cluster plain("queues: [{name: red}]");
  plain.Join("node-1");
  const auto answer = AnswerWhatIf(*plain.controller.CopyScheduler(),
                                   {*ParseWhatIfChange("add 8 H100")}, plain.now, {});
  EXPECT_THAT(answer.status().message(), HasSubstr("no cluster file declares device models"));
}

// As it is, the course that is played is what the controller then does.
TEST_F(WhatIf, TheCourseWithoutAnEffectIsThatOfTheController) {
  proto::Job first = For(Gang("first", 2), hours(2));
  proto::Job second = For(Gang("second", 2), hours(1));
  for (proto::Job* job : {&first, &second}) job->mutable_scheduling()->add_devices("H100");
  cluster_.Submit(first);
  cluster_.Submit(second);
  const WhatIfAnswer answer = Ask({"add 4 H100"});
  ASSERT_THAT(Effects(answer), ElementsAre("second starts-now"));
  const Instant starts = *answer.rows[0].before;
  cluster_.TickUntil(starts);
  cluster_.Stop("first");
  EXPECT_EQ(cluster_.StateOf("second"), proto::RUNNING);
}

TEST(WhatIfChange, ReadsTheGrammarAndWritesItBack) {
  for (const char* text :
       {"drain node-1", "drain rack rack-3", "add 64 h100", "add 64 H100 per-node 8",
        "add 64 H100 in rack-3", "add 64 H100 per-node 8 in rack-3", "queue a guarantee 0",
        "queue a limit 1000000000", "queue a limit none", "stop job-1", "submit a b/job.yaml"}) {
    const auto change = ParseWhatIfChange(text);
    ASSERT_TRUE(change.ok()) << text << ": " << change.status();
    EXPECT_EQ(ToString(*change), text);
  }
  EXPECT_EQ(ToString(*ParseWhatIfChange("  add  8 H100   in r  per-node 2 ")),
            "add 8 H100 per-node 2 in r");
}

TEST(WhatIfChange, RefusesEverythingElse) {
  const struct {
    std::string text;
    const char* part;
  } kRows[] = {
      {"", "expected drain, add, queue, stop or submit"},
      {"   ", "expected drain, add, queue, stop or submit"},
      {"drian node-1", "'drian' is not a change, did you mean 'drain'"},
      {"reboot node-1", "expected drain, add, queue, stop or submit"},
      {"drain", "expected drain NODE, drain DOMAIN or drain LEVEL DOMAIN"},
      {"drain a b c", "expected drain NODE"},
      {"add 64", "expected add N MODEL [per-node K] [in LEAF]"},
      {"add 64 H100 per-node", "expected add N MODEL"},
      {"add 64 H100 per-node 8 per-node 8", "expected add N MODEL"},
      {"add 64 H100 at rack-3", "expected add N MODEL"},
      {"add 0 H100", "'0' is not a number of devices, expected 1 to 1,000,000"},
      {"add -8 H100", "'-8' is not a number of devices"},
      {"add nan H100", "'nan' is not a number of devices"},
      {"add 1e9 H100", "'1e9' is not a number of devices"},
      {"add 99999999999999999999 H100", "is not a number of devices"},
      {"add 64 H100 per-node 17", "'17' is not a number of devices per node, expected 1 to 16"},
      {"add 10 H100 per-node 4", "10 devices are not whole nodes of 4"},
      {"queue a quota 3", "expected queue NAME guarantee N or queue NAME limit N"},
      {"queue a limit", "expected queue NAME guarantee N"},
      {"queue a limit 1.5", "'1.5' is not a number of accelerators"},
      {"queue a guarantee none", "'none' is not a number of accelerators"},
      {"stop", "expected stop JOB"},
      {"stop a b", "expected stop JOB"},
      {"submit", "expected submit FILE"},
      {"stop a\nb", "'stop a\\x0ab' is not a change"},
      {"stop " + std::string(254, 'a'), "has 254 bytes, a name has at most 253"},
      {"submit " + std::string(5'000, 'a'), "a change has 5007 bytes"},
  };
  for (const auto& row : kRows) {
    const Status status = ParseWhatIfChange(row.text).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << row.text;
    EXPECT_THAT(status.message(), HasSubstr(row.part)) << row.text;
  }
}

}  // namespace
}  // namespace longhaul::runtime::scheduling_testing::what_if_test
