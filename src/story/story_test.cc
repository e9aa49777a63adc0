#include "story/story.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "story/sentences.h"
#include "story/story_json.h"
#include "story/story_text.h"

namespace longhaul::story {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSubmitted_ns = 1'700'000'000'000'000'000;

int64_t After(double seconds) { return kSubmitted_ns + static_cast<int64_t>(seconds * 1e9); }

// The log of one job with two workers on node-1 and two on node-2, in the order of the log.
class Log {
 public:
  Log() { State(0, proto::QUEUED, "submitted"); }

  proto::Notification& Notify(double seconds) {
    proto::Notification& notification = notification_;
    notification.Clear();
    notification.set_at_ns(After(seconds));
    notification.set_job_id("gpt-1");
    return notification;
  }
  void Send() { recorder_.TakeNotification(notification_); }

  void State(double seconds, proto::JobState state, const std::string& reason) {
    auto& change = *Notify(seconds).mutable_state();
    change.set_state(state);
    change.set_reason(reason);
    Send();
  }
  void Attempt(double seconds, uint64_t number,
               proto::Restore::Tier tier = proto::Restore::TIER_NONE, uint64_t step = 0) {
    auto& attempt = *Notify(seconds).mutable_attempt();
    attempt.set_attempt(number);
    attempt.set_world(4);
    attempt.add_gang("node-1");
    attempt.add_gang("node-2");
    attempt.mutable_restore()->set_tier(tier);
    attempt.mutable_restore()->set_step(step);
    Send();
  }
  void Step(double seconds, uint64_t step) {
    auto& done = *Notify(seconds).mutable_step();
    done.set_step(step);
    done.set_goodput(0.5);
    Send();
  }
  void Warn(double seconds, const std::string& text) {
    auto& message = *Notify(seconds).mutable_message();
    message.set_severity(proto::MessageNotification::WARNING);
    message.set_text(text);
    Send();
  }
  void Fault(double seconds, const proto::Fault& fault) {
    *Notify(seconds).mutable_fault() = fault;
    Send();
  }

  void Exit(double seconds, uint64_t attempt, uint32_t rank, const std::string& node,
            int32_t exit_code, int32_t signal, bool asked = false) {
    proto::Event event;
    event.set_at_ns(After(seconds));
    event.set_node(node);
    auto& exited = *event.mutable_worker_exited();
    exited.set_job_id("gpt-1");
    exited.set_attempt(attempt);
    exited.set_rank(rank);
    exited.set_exit_code(exit_code);
    exited.set_signal(signal);
    exited.set_asked(asked);
    recorder_.TakeEvent(After(seconds + 0.0001), event);
  }
  void Event(double seconds, const proto::Event& event) {
    recorder_.TakeEvent(After(seconds), event);
  }

  RunRecord Record() { return recorder_.Record(); }

 private:
  RunRecorder recorder_{"gpt-1"};
  proto::Notification notification_;
};

void AddCost(proto::Fault& fault, proto::Category category, double rank_seconds) {
  proto::CategoryTime& cost = *fault.add_costs();
  cost.set_category(category);
  cost.set_rank_seconds(rank_seconds);
  fault.set_lost_rank_seconds(fault.lost_rank_seconds() + rank_seconds);
}

proto::Fault NewFault(uint32_t number, const std::string& class_name, const std::string& what,
                      double happened, double detected) {
  proto::Fault fault;
  fault.set_number(number);
  fault.set_class_name(class_name);
  fault.set_what(what);
  fault.set_rank(-1);
  fault.set_happened_at_ns(After(happened));
  fault.set_detected_at_ns(After(detected));
  return fault;
}

// Worker 1 is killed 0.5 s after step 40; its peers fail; work goes on from step 36 in memory.
Log KilledWorker() {
  Log log;
  log.Attempt(1, 1);
  log.Step(39, 39);
  log.Step(40, 40);
  proto::Fault fault =
      NewFault(1, "process", "worker 1 was ended by signal 9 (SIGKILL)", 40.5, 40.501);
  fault.set_node("node-1");
  fault.set_rank(1);
  log.Exit(40.5, 1, 1, "node-1", -1, 9);
  log.Fault(40.501, fault);
  log.Warn(40.5015, "the disk is slow");
  log.Attempt(40.502, 2, proto::Restore::TIER_MEMORY, 36);
  fault.set_action("restart from memory at step 36");
  fault.set_from_step(36);
  fault.set_lost_steps(4);
  fault.set_decided_at_ns(After(40.502));
  log.Fault(40.502, fault);
  log.Exit(40.503, 1, 2, "node-2", 1, 0);
  log.Exit(40.504, 1, 0, "node-1", -1, 9, /*asked=*/true);
  fault.set_started_at_ns(After(40.6));
  fault.set_stepping_at_ns(After(41));
  fault.set_first_step_at_ns(After(42));
  fault.set_new_step_at_ns(After(46));
  AddCost(fault, proto::LOST_WORK, 16);
  AddCost(fault, proto::START_UP_TIME, 1.6);
  AddCost(fault, proto::DETECT, 0.004);
  log.Step(46, 41);
  log.Fault(46, fault);
  return log;
}

TEST(Story, HasTheFactsOfAKilledWorker) {
  Log log = KilledWorker();
  log.State(60, proto::SUCCEEDED, "all workers ended well");
  const Story story = MakeStory(log.Record());
  ASSERT_EQ(story.faults.size(), 1U);
  const FaultStory& fault = story.faults[0];
  EXPECT_EQ(fault.attempt, 1U);
  EXPECT_EQ(fault.last_step, 40U);
  EXPECT_NEAR(fault.since_last_step, 0.5, 1e-6);
  EXPECT_NEAR(fault.after_seconds, 40.5, 1e-6);
  EXPECT_NEAR(fault.detection_seconds, 0.001, 1e-6);
  EXPECT_EQ(fault.signal, 9);
  EXPECT_FALSE(fault.exit_code.has_value());
  EXPECT_EQ(fault.next_attempt, 2U);
  EXPECT_EQ(fault.from_step, 36U);
  EXPECT_EQ(fault.lost_steps, 4U);
  EXPECT_NEAR(*fault.recovery_seconds, 5.5, 1e-6);
  EXPECT_NEAR(fault.cost_seconds, 17.604 / 4, 1e-9) << "rank seconds over four ranks";
  ASSERT_EQ(fault.costs.size(), 3U);
  EXPECT_EQ(fault.costs[0].category, "lost work");
  EXPECT_NEAR(fault.costs[0].seconds, 4, 1e-9);
  EXPECT_EQ(story.state, "succeeded");
  EXPECT_EQ(story.goodput, 0.5) << "of the last step, without a report";
}

TEST(Story, AFaultInProgressHasTheStagesReachedAndNoCostYet) {
  Log log;
  log.Attempt(1, 1);
  log.Step(39, 39);
  proto::Fault fault = NewFault(1, "node", "node-2 was lost", 40, 41);
  fault.set_decided_at_ns(After(41.5));
  log.Fault(41.5, fault);
  const FaultStory open = MakeStory(log.Record()).faults.at(0);
  EXPECT_TRUE(open.open);
  ASSERT_EQ(open.stages.size(), 2U);
  EXPECT_EQ(open.stages[1].name, "decided");
  EXPECT_NEAR(open.stages[1].took_seconds, 0.5, 1e-6);
  EXPECT_EQ(StepSentences(open), "Work has not continued yet.");
  EXPECT_EQ(CostSentences(open), "The cost is known when the first new step is done.");
  log.State(50, proto::STOPPED, "stopped by its owner");
  const FaultStory ended = MakeStory(log.Record()).faults.at(0);
  EXPECT_FALSE(ended.open);
  EXPECT_EQ(StepSentences(ended), "Work did not continue.");
}

TEST(Story, HasTheNewestStackOfEachWorker) {
  Log log;
  log.Attempt(1, 1);
  const auto probe = [&log](double seconds, uint64_t attempt, uint32_t rank, const char* calls) {
    proto::Event event;
    event.set_node("node-1");
    event.mutable_workers_probed()->set_job_id("gpt-1");
    event.mutable_workers_probed()->set_attempt(attempt);
    auto& worker = *event.mutable_workers_probed()->add_workers();
    worker.set_rank(rank);
    worker.set_stack(calls);
    log.Event(seconds, event);
  };
  probe(40, 1, 1, "old");
  probe(41, 1, 1, "recv\nbarrier");
  probe(41, 1, 0, "step");
  probe(41, 1, 2, "");
  probe(41, 2, 3, "of another attempt");
  probe(60, 1, 3, "later than the fault");
  log.Fault(42, NewFault(1, "hang", "no step for 2 s", 40, 42));
  const std::vector<WorkerStack> stacks = MakeStory(log.Record()).faults.at(0).stacks;
  ASSERT_EQ(stacks.size(), 2U);
  EXPECT_EQ(stacks[0].rank, 0U);
  EXPECT_EQ(stacks[1].calls, (std::vector<std::string>{"recv", "barrier"}));
  EXPECT_EQ(stacks[1].node, "node-1");
}

TEST(Story, NotesTheEntriesOfANewerVersion) {
  Log log = KilledWorker();
  log.Notify(50);  // of no kind that this program knows
  log.Send();
  log.Event(50, proto::Event());
  const Story story = MakeStory(log.Record());
  ASSERT_EQ(story.faults.size(), 1U) << "the rest is used";
  EXPECT_THAT(story.notes, testing::Contains(HasSubstr("2 entries of the log have a kind")));
}

TEST(Story, NamesTheEvidenceAndNotTheWorkersThatLonghaulEnded) {
  const Story story = MakeStory(KilledWorker().Record());
  const std::vector<Moment>& seen = story.faults.at(0).observations;
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].text, "Worker 1 on node-1 was ended by signal 9 (SIGKILL).");
  EXPECT_EQ(seen[1].text,
            "Worker 2 on node-2 exited with code 1. This was not taken as the cause.");
}

TEST(Story, TellsTheActionsInOrder) {
  const Story story = MakeStory(KilledWorker().Record());
  const std::vector<Moment>& done = story.faults.at(0).actions;
  ASSERT_EQ(done.size(), 8U);
  EXPECT_THAT(done[0].text, HasSubstr("ended the remaining workers of attempt 1"));
  EXPECT_THAT(done[1].text, HasSubstr("the disk is slow"));
  EXPECT_EQ(done[2].text, "The controller decided: restart from memory at step 36.");
  EXPECT_EQ(done[3].text,
            "Attempt 2 was opened with 4 workers on node-1, node-2, from the snapshots in memory "
            "at step 36.");
  EXPECT_EQ(done[4].text, "All new processes existed.");
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end(),
                             [](const Moment& a, const Moment& b) { return a.at_ns < b.at_ns; }));
}

TEST(Story, TwoFaultsWithOneRestartHaveTheirOwnEvidence) {
  Log log = KilledWorker();
  proto::Fault other = NewFault(2, "process", "worker 3 was ended by signal 9 (SIGKILL)", 40.5, 47);
  other.set_node("node-2");
  other.set_rank(3);
  other.set_action("the same restart as for fault 1");
  other.set_decided_at_ns(After(47));
  log.Exit(40.5, 1, 3, "node-2", -1, 9);
  log.Fault(47, other);
  const Story story = MakeStory(log.Record());
  ASSERT_EQ(story.faults.size(), 2U);
  const FaultStory& fault = story.faults[1];
  EXPECT_EQ(fault.attempt, 1U) << "known only in attempt 2";
  EXPECT_EQ(fault.next_attempt, 2U);
  EXPECT_EQ(fault.signal, 9);
  EXPECT_EQ(fault.cost_seconds, 0);
}

TEST(Story, StatesHowLongALostAgentWasSilent) {
  Log log;
  log.Attempt(1, 1);
  proto::Event step;
  step.set_node("node-2");
  step.mutable_step_reported()->set_job_id("gpt-1");
  log.Event(10, step);
  proto::Event gone;
  gone.set_node("node-2");
  gone.mutable_agent_disconnected()->set_reason("no answer to a ping");
  log.Event(13, gone);
  proto::Event other = gone;
  other.set_node("node-9");
  log.Event(200, other);
  log.Event(15, gone);  // the next agent, at the end of the run
  proto::Fault fault = NewFault(1, "node", "node-2 is gone: its agent did not come back", 14, 14);
  fault.set_node("node-2");
  log.Fault(14, fault);
  const Story story = MakeStory(log.Record());
  const FaultStory& lost = story.faults.at(0);
  ASSERT_EQ(lost.observations.size(), 1U) << "node-9 was lost much later";
  EXPECT_EQ(lost.observations[0].text,
            "The connection of the agent of node-2 ended (no answer to a ping); its last event had "
            "been received 3 s before.");
  EXPECT_FALSE(lost.restarted);
  EXPECT_FALSE(lost.over);
}

TEST(Story, ShowsTheProbeOfAHang) {
  Log log;
  log.Attempt(1, 1);
  log.Step(20, 7);
  proto::Event probed;
  probed.set_node("node-1");
  auto& probe = *probed.mutable_workers_probed();
  probe.set_job_id("gpt-1");
  probe.set_attempt(1);
  auto& worker = *probe.add_workers();
  worker.set_rank(0);
  worker.set_process_state("T");
  worker.set_cpu_ns(2'500'000'000);
  worker.set_last_step(7);
  worker.set_resumed(true);
  log.Event(31, probed);
  proto::Fault fault = NewFault(1, "hang", "worker 0 was stopped (state T)", 20, 31);
  fault.set_node("node-1");
  fault.set_rank(0);
  fault.set_action("continued it with SIGCONT");
  fault.set_decided_at_ns(After(31));
  log.Fault(31, fault);
  fault.set_new_step_at_ns(After(32));
  log.Fault(32, fault);
  const Story story = MakeStory(log.Record());
  const FaultStory& hang = story.faults.at(0);
  ASSERT_EQ(hang.observations.size(), 1U);
  EXPECT_THAT(hang.observations[0].text, HasSubstr("worker 0 is in state T, has used 2.5 s"));
  EXPECT_THAT(hang.observations[0].text, HasSubstr("was continued with SIGCONT"));
  EXPECT_TRUE(hang.over);
  EXPECT_FALSE(hang.restarted);
  for (const Moment& action : hang.actions) {
    EXPECT_THAT(action.text, Not(HasSubstr("ended the remaining workers")));
  }
  EXPECT_THAT(StoryText(story, {}), HasSubstr("Work continued without a restart."));
}

TEST(Story, OfAJobThatFailedEndsWithTheReason) {
  Log log;
  log.Attempt(1, 1);
  proto::Fault fault = NewFault(1, "error", "worker 0 exited with code 3: a\nb\nlast line", 5, 5);
  fault.set_node("node-1");
  fault.set_rank(0);
  log.Exit(5, 1, 0, "node-1", 3, 0);
  log.Fault(5, fault);
  AddCost(fault, proto::DETECT, 4);
  log.Fault(6, fault);
  log.State(6, proto::FAILED, "out of restarts (0 allowed)");
  const Story story = MakeStory(log.Record());
  const FaultStory& error = story.faults.at(0);
  EXPECT_EQ(error.exit_code, 3);
  EXPECT_FALSE(error.over);
  EXPECT_EQ(error.actions.back().text, "The job failed: out of restarts (0 allowed).");
  EXPECT_THAT(error.output, ::testing::ElementsAre("a", "b", "last line"));
  const std::string text = StoryText(story, {});
  EXPECT_THAT(text, HasSubstr("Work did not continue."));
  EXPECT_THAT(text, HasSubstr("| last line\n"));
  EXPECT_EQ(StoryJson(story, {})["faults"][0]["cost_by_category"]["detect"], 1.0);
}

TEST(Story, SumsUpByCauseAndFindsTheLargestLoss) {
  Log log = KilledWorker();
  RunRecord record = log.Record();
  RunTotals totals;
  totals.state = "succeeded";
  totals.goodput = 0.9;
  totals.ranks = 4;
  totals.categories = {{"productive", 50}, {"queue", 30}, {"lost work", 4}, {"start-up", 6}};
  record.totals = totals;
  const Story story = MakeStory(record);
  EXPECT_EQ(story.goodput, 0.9);
  ASSERT_EQ(story.causes.size(), 1U);
  EXPECT_EQ(story.causes[0].class_name, "process");
  EXPECT_EQ(story.causes[0].faults, 1U);
  ASSERT_TRUE(story.largest_loss.has_value());
  EXPECT_EQ(story.largest_loss->category, "start-up");
}

// Those of a fault are among its actions.
TEST(Story, HasTheWarningsThatBelongToNoFault) {
  Log log = KilledWorker();
  log.Warn(50, "worker 2 on node-2 slows the job down");
  const Story story = MakeStory(log.Record());
  ASSERT_EQ(story.warnings.size(), 1u);
  EXPECT_EQ(story.warnings[0].text, "worker 2 on node-2 slows the job down.");
  EXPECT_THAT(StoryText(story, {}),
              HasSubstr("Warnings  +50 s       worker 2 on node-2 slows the job down."));
  EXPECT_EQ(StoryJson(story, {})["warnings"][0]["after_seconds"], 50.0);
}

TEST(Story, ShowsTheFirstWarningsAndCountsTheOthers) {
  Log log;
  log.Attempt(1, 1);
  for (int i = 0; i < 12; ++i) log.Warn(2 + i, "warning " + std::to_string(i));
  const std::string text = StoryText(MakeStory(log.Record()), {});
  EXPECT_THAT(text, HasSubstr("warning 9."));
  EXPECT_THAT(text, Not(HasSubstr("warning 10.")));
  EXPECT_THAT(text, HasSubstr("and 2 more warnings, which --json prints."));
}

TEST(Advice, IsAShorterIntervalWhereLostWorkDominates) {
  RunRecord record = KilledWorker().Record();
  EXPECT_THAT(MakeStory(record).advice, HasSubstr("save checkpoints at a shorter interval"));
  EXPECT_THAT(MakeStory(record).advice, HasSubstr("repeated 4.0 steps on average"));
  record.totals = RunTotals();
  record.totals->snapshots = 3;
  record.totals->interval_steps = 12;
  EXPECT_THAT(MakeStory(record).advice,
              HasSubstr("snapshot.interval_steps of the job file was 12"));
}

TEST(Advice, IsNoShorterIntervalWhereNoStepWasRepeated) {
  Log log;
  log.Attempt(1, 1);
  proto::Fault fault = NewFault(1, "process", "worker 1 was ended by signal 9", 5, 5);
  AddCost(fault, proto::LOST_WORK, 9);
  log.Fault(5, fault);
  EXPECT_EQ(MakeStory(log.Record()).advice, "");
}

TEST(Advice, IsToCorrectAnErrorThatRepeats) {
  Log log;
  log.Attempt(1, 1);
  for (uint32_t number = 1; number <= 2; ++number) {
    proto::Fault fault =
        NewFault(number, "error", "worker 0 exited with code 1", 5 * number, 5 * number);
    fault.set_node("node-1");
    fault.set_rank(0);
    AddCost(fault, proto::LOST_WORK, 9);
    log.Fault(5 * number, fault);
    log.Attempt(5 * number + 1, number + 1);
  }
  EXPECT_THAT(MakeStory(log.Record()).advice,
              HasSubstr("The same error ended the workers 2 times"));
}

TEST(Advice, IsNoneWithoutFaults) {
  Log log;
  log.State(3, proto::SUCCEEDED, "all workers ended well");
  const Story story = MakeStory(log.Record());
  EXPECT_EQ(story.advice, "");
  EXPECT_THAT(StoryText(story, {}), HasSubstr("There was no fault."));
}

TEST(Story, OfAnOldLogHasSumsAndANote) {
  Log log;
  log.Attempt(1, 1);
  proto::Fault fault = NewFault(1, "process", "worker 1 was ended by signal 15", 5, 5);
  fault.set_lost_rank_seconds(8);
  log.Fault(5, fault);
  const Story story = MakeStory(log.Record());
  EXPECT_EQ(story.faults.at(0).cost_seconds, 2);
  EXPECT_THAT(StoryText(story, {}), HasSubstr("older than the division"));
}

TEST(StoryText, MakesTextsOfWorkersHarmless) {
  Log log;
  log.Attempt(1, 1);
  proto::Fault fault = NewFault(1, "error", "worker 0 exited: \x1b[2Jred\nline\x07", 5, 5);
  fault.set_node("node-\x1b");
  log.Fault(5, fault);
  const std::string text = StoryText(MakeStory(log.Record()), {});
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\x07")));
}

TEST(StoryText, CanBeOfOneFault) {
  Log log = KilledWorker();
  proto::Fault second = NewFault(2, "start", "workers did not start", 50, 50);
  log.Fault(50, second);
  const std::string text = StoryText(MakeStory(log.Record()), 2);
  EXPECT_TRUE(text.starts_with("Fault 2: workers did not start")) << text;
  EXPECT_THAT(text, Not(HasSubstr("Fault 1")));
  EXPECT_THAT(text, Not(HasSubstr("Summary")));
}

TEST(RunRecorder, KeepsOneStepReportBeforeEachOtherNotification) {
  Log log;
  for (int i = 1; i <= 1000; ++i) log.Step(i, static_cast<uint64_t>(i));
  log.Warn(1001, "w");
  const RunRecord record = log.Record();
  ASSERT_EQ(record.notifications.size(), 3U);
  EXPECT_EQ(record.notifications[1].step().step(), 1000U);
}

TEST(RunRecorder, StopsAtItsLimitWithANote) {
  RunRecorder recorder("a", 2);
  proto::Notification notification;
  notification.set_job_id("a");
  notification.mutable_message()->set_text("m");
  for (int i = 0; i < 3; ++i) recorder.TakeNotification(notification);
  const RunRecord record = recorder.Record();
  EXPECT_EQ(record.notifications.size(), 2U);
  ASSERT_EQ(record.notes.size(), 1U);
  EXPECT_THAT(record.notes[0], HasSubstr("more than 2 entries"));
}

}  // namespace
}  // namespace longhaul::story
