#include "frontend/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/format.h"
#include "base/text.h"
#include "frontend/artefacts.h"
#include "frontend/charts.h"
#include "frontend/report/report_json.h"
#include "frontend/report/report_markdown.h"
#include "frontend/report/report_summary.h"
#include "frontend/svg.h"

namespace longhaul::frontend::report_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kStart_ns = 1'700'000'000'000'000'000;

int64_t At(double seconds) { return kStart_ns + static_cast<int64_t>(seconds * 1e9); }

void AddTime(proto::Ledger& ledger, proto::Category category, double rank_seconds) {
  proto::CategoryTime& time = *ledger.add_categories();
  time.set_category(category);
  time.set_rank_seconds(rank_seconds);
}

proto::Fault KilledWorker() {
  proto::Fault fault;
  fault.set_number(1);
  fault.set_what("worker 1 was killed by signal 9");
  fault.set_class_name("process");
  fault.set_node("node-1");
  fault.set_rank(1);
  fault.set_injected(true);
  fault.set_action("restart in place from memory at step 36");
  fault.set_lost_steps(4);
  fault.set_from_step(36);
  fault.set_happened_at_ns(At(40));
  fault.set_detected_at_ns(At(40.0005));
  fault.set_decided_at_ns(At(40.0055));
  fault.set_started_at_ns(At(40.015));
  fault.set_rendezvous_at_ns(At(40.03));
  fault.set_restoring_at_ns(At(40.08));
  fault.set_stepping_at_ns(At(40.1));
  fault.set_first_step_at_ns(At(40.5));
  fault.set_new_step_at_ns(At(41.5));
  fault.set_lost_rank_seconds(6);
  return fault;
}

proto::Fault KilledNode() {
  proto::Fault fault = KilledWorker();
  fault.set_number(2);
  fault.set_what("node-2 was lost");
  fault.set_class_name("node");
  fault.set_node("node-2");
  fault.set_rank(-1);
  fault.set_action("node replaced, restart from disk at step 84");
  const double shift = 50;
  fault.set_happened_at_ns(At(40 + shift));
  fault.set_detected_at_ns(At(40.01 + shift));
  fault.set_decided_at_ns(At(40.3 + shift));
  fault.set_started_at_ns(At(40.7 + shift));
  fault.set_rendezvous_at_ns(At(40.8 + shift));
  fault.set_restoring_at_ns(At(40.9 + shift));
  fault.set_stepping_at_ns(At(41.2 + shift));
  fault.set_first_step_at_ns(At(41.6 + shift));
  fault.set_new_step_at_ns(At(44 + shift));
  return fault;
}

// Two nodes with two workers: 4 ranks, 120 seconds.
proto::JobStatus Status() {
  proto::JobStatus status;
  proto::Job& job = *status.mutable_job();
  job.set_name("headers-gpt");
  job.set_nodes(2);
  job.set_processes_per_node(2);
  job.set_total_steps(300);
  job.set_plan_reason("4 workers: 2 cores | 2 slots");
  proto::Prediction& prediction = *job.mutable_prediction();
  prediction.set_step_seconds(0.25);
  prediction.set_worker_memory_bytes(300 << 20);
  prediction.set_micro_batch(8);
  prediction.set_level("calibrated");
  prediction.set_basis("measured | on a day");
  status.set_state(proto::SUCCEEDED);
  status.set_highest_step(300);
  status.set_first_loss(5.55);
  status.set_loss(1.98);
  status.set_first_validation_loss(5.51);
  status.set_validation_loss(2.07);
  status.set_tokens(1'228'800);
  status.set_tokens_per_second(11'400);
  status.set_flops(4e12);
  status.set_snapshots(30);
  status.set_commits(10);
  status.set_snapshot_blocked_seconds(0.003);
  for (const uint64_t snapshots : {0, 2, 28, 0}) status.add_snapshot_ways(snapshots);
  status.set_snapshot_waited_seconds(0.5);
  status.set_snapshot_waited_seconds_max(0.4);
  status.set_snapshot_interval_steps(10);
  status.set_snapshot_interval_reason("sqrt(2 x 3 ms x 1 h) = 4.6 s, 10 steps");
  status.set_submitted_at_ns(At(0));
  status.set_ended_at_ns(At(120));
  proto::Ledger& ledger = *status.mutable_ledger();
  AddTime(ledger, proto::PRODUCTIVE, 400);
  AddTime(ledger, proto::START_UP_TIME, 40);
  AddTime(ledger, proto::LOST_WORK, 16);
  AddTime(ledger, proto::FINISH, 24);
  ledger.set_goodput(400.0 / 480);
  *status.add_faults() = KilledWorker();
  status.add_results(
      R"({"prompt": "#include <", "sample": "stdio.h>\n```\n<b>", "weights_hash": "ab12",)"
      R"( "peak_flops_per_second": 1e11, "peak_memory_bytes": 262144000})");
  return status;
}

RunHistory History() {
  RunHistory history;
  const auto take = [&history](double seconds, auto set) {
    proto::Notification notification;
    notification.set_at_ns(At(seconds));
    set(notification);
    history.Take(notification);
  };
  take(0.5, [](proto::Notification& n) { n.mutable_state()->set_state(proto::STARTING); });
  take(10, [](proto::Notification& n) { n.mutable_state()->set_state(proto::RUNNING); });
  for (uint64_t attempt = 1; attempt <= 3; ++attempt) {
    take(attempt == 1   ? 0.5
         : attempt == 2 ? 40.01
                        : 90.5,
         [attempt](proto::Notification& n) {
           n.mutable_attempt()->set_attempt(attempt);
           n.mutable_attempt()->add_gang("node-1");
           n.mutable_attempt()->add_gang("node-2");
         });
  }
  for (uint64_t i = 1; i <= 300; ++i) {
    const double share = static_cast<double>(i) / 300;
    take(10 + 105 * share, [&](proto::Notification& n) {
      proto::StepNotification& step = *n.mutable_step();
      step.set_step(i);
      step.set_attempt(1);
      step.set_loss(2 + 3.5 / (1 + 20 * share));
      step.set_gradient_norm(0.5);
      if (i % 50 == 0) {
        step.set_has_validation_loss(true);
        step.set_validation_loss(2.1 + 3.5 / (1 + 20 * share));
      }
    });
    if (i % 10 == 0) {
      take(10.2 + 105 * share, [&](proto::Notification& n) {
        n.mutable_snapshot()->set_step(i);
        n.mutable_snapshot()->set_tier(i % 30 == 0 ? "disk" : "memory");
      });
    }
  }
  take(90, [](proto::Notification& n) { *n.mutable_fault() = KilledNode(); });
  take(120, [](proto::Notification& n) { n.mutable_state()->set_state(proto::SUCCEEDED); });
  return history;
}

Report MakeSample(double job_seconds = 120.05) {
  RunFacts facts;
  facts.version = "0.1.0";
  facts.command_line = "longhaul run x.yaml";
  facts.run_directory = "/runs/x";
  facts.job_seconds = job_seconds;
  facts.process_seconds = 125;
  return MakeReport(Status(), History(), facts);
}

TEST(Report, SumsTheLedgerOverTheRanks) {
  const Report report = MakeSample();
  ASSERT_EQ(report.categories.size(), 4u);
  EXPECT_EQ(report.categories[0].name, "productive");
  EXPECT_DOUBLE_EQ(report.categories[0].seconds, 100);
  EXPECT_EQ(report.categories[1].name, "start-up");
  EXPECT_NEAR(report.categories[1].share, 1.0 / 12, 1e-12);
  EXPECT_DOUBLE_EQ(report.ledger.sum_seconds, 120);
  EXPECT_TRUE(report.ledger.holds);
}

TEST(Report, HoldsThePredictionAgainstTheRun) {
  const Report report = MakeSample();
  ASSERT_TRUE(report.prediction.has_value());
  // Steps are 105 s / 300 = 0.35 s apart; the fullest worker had 250 MiB of 300.
  EXPECT_NEAR(report.prediction->step_seconds.measured.value_or(0), 0.35, 1e-6);
  EXPECT_NEAR(report.prediction->step_seconds.error.value_or(0), 0.25 / 0.35 - 1, 1e-6);
  EXPECT_NEAR(report.prediction->worker_memory_bytes.error.value_or(0), 0.2, 1e-9);
  const std::string text = ReportMarkdown(report);
  EXPECT_THAT(text, HasSubstr("| step | 250 ms | 350 ms | -28.6 % |"));
  EXPECT_THAT(text,
              HasSubstr("| memory of a worker at its peak | 300.00 MiB | 250.00 MiB | +20.0 % |"));
  EXPECT_THAT(text, HasSubstr("(calibrated): measured \\| on a day."));
  const auto json = ReportJson(report)["prediction"];
  EXPECT_NEAR(json["step_seconds"]["error"].get<double>(), 0.25 / 0.35 - 1, 1e-6);
  EXPECT_EQ(json["worker_memory_bytes"]["predicted"], 300 << 20);
  EXPECT_EQ(json["level"], "calibrated");
}

TEST(Report, HasNoComparisonWithoutAPrediction) {
  proto::JobStatus status = Status();
  status.mutable_job()->clear_prediction();
  const Report report = MakeReport(status, History(), RunFacts());
  EXPECT_FALSE(report.prediction.has_value());
  EXPECT_TRUE(ReportJson(report)["prediction"].is_null());
}

TEST(Report, SaysThatALedgerIsWrong) {
  const Report report = MakeSample(120.2);
  EXPECT_FALSE(report.ledger.holds);
  EXPECT_NEAR(report.ledger.difference, -0.2 / 120.2, 1e-12);
  EXPECT_THAT(ReportMarkdown(report), HasSubstr("**the categories sum to "
                                                "120.000 s, this process measured 120.200 s"));
  EXPECT_FALSE(ReportJson(report)["ledger"]["holds"].get<bool>());
}

// A run of a second whose two ends were reported 120 ms late, because the disk was slow.
TEST(Report, AllowsForTheDelayOfTheMessagesAtBothEnds) {
  RunFacts facts;
  facts.job_seconds = 120.2;
  EXPECT_FALSE(MakeReport(Status(), History(), facts).ledger.holds);
  facts.notification_delay_seconds = 0.2;
  EXPECT_TRUE(MakeReport(Status(), History(), facts).ledger.holds);
  facts.job_seconds = 123;
  facts.notification_delay_seconds = 1000;
  EXPECT_FALSE(MakeReport(Status(), History(), facts).ledger.holds) << "that is another clock";
}

TEST(Report, ShowsAStall) {
  proto::JobStatus status = Status();
  AddTime(*status.mutable_ledger(), proto::STALL, 20);
  const std::string text = ReportMarkdown(MakeReport(status, History(), RunFacts()));
  EXPECT_THAT(text, HasSubstr("| stall | 5.000 |"));
}

TEST(Report, CutsARecoveryIntoStages) {
  const Report report = MakeSample();
  ASSERT_EQ(report.faults.size(), 2u);  // one from the status, one only from the history
  const FaultRow& row = report.faults[0];
  EXPECT_DOUBLE_EQ(*row.recovery_seconds, 1.5);
  EXPECT_DOUBLE_EQ(row.cost_seconds, 1.5);
  ASSERT_EQ(row.stages.size(), 8u);
  double sum = 0;
  for (const story::FaultStage& stage : row.stages) sum += stage.took_seconds;
  EXPECT_NEAR(sum, 1.5, 1e-9);
  const std::string text = ReportMarkdown(report);
  EXPECT_THAT(text, HasSubstr("| detected | 500 us | 500 us | 1 ms |"));
  EXPECT_THAT(text, HasSubstr("| decided | 5.5 ms | 5 ms | 2 ms, exceeded |"));
  EXPECT_THAT(text, HasSubstr("### 2. node-2 was lost"));
}

TEST(Report, MeasuresFlopsInProductiveTimeAgainstThePeak) {
  const Report report = MakeSample();
  EXPECT_DOUBLE_EQ(*report.achieved_flops, 4e10);
  EXPECT_DOUBLE_EQ(*report.flops_utilisation, 0.4);
  EXPECT_THAT(ReportMarkdown(report), HasSubstr("40.0 %: 40.0GFLOP/s of the model"));
}

TEST(Report, HoldsEachWarningOnce) {
  RunHistory history;
  const auto say = [&history](double at, proto::MessageNotification::Severity severity,
                              const char* text) {
    proto::Notification notification;
    notification.set_at_ns(At(at));
    notification.mutable_message()->set_severity(severity);
    notification.mutable_message()->set_text(text);
    history.Take(notification);
  };
  say(1, proto::MessageNotification::INFO, "all is well");
  say(2, proto::MessageNotification::WARNING, "checkpoints | have been removed");
  say(3, proto::MessageNotification::ERROR, "the disk is full");
  say(4, proto::MessageNotification::WARNING, "checkpoints | have been removed");
  proto::JobStatus status;
  status.set_submitted_at_ns(kStart_ns);
  const Report report = MakeReport(status, history, {});
  ASSERT_EQ(report.warnings.size(), 2u);
  EXPECT_EQ(report.warnings[0].times, 2u);
  EXPECT_NEAR(report.warnings[0].after_seconds, 2, 1e-9);
  EXPECT_TRUE(report.warnings[1].error);
  const std::string text = ReportMarkdown(report);
  EXPECT_THAT(text, HasSubstr("| 2 | checkpoints \\| have been removed |"));
  EXPECT_THAT(text, Not(HasSubstr("all is well")));
  EXPECT_EQ(ReportJson(report)["warnings"][1]["severity"], "error");
  EXPECT_THAT(ReportMarkdown(MakeReport(status, {}, {})), Not(HasSubstr("Warnings")));
}

TEST(ReportMarkdown, KeepsForeignTextFromFormatting) {
  const std::string text = ReportMarkdown(MakeSample());
  EXPECT_THAT(text, HasSubstr("````text\n#include <stdio.h>\n```\n<b>\n````"));
  EXPECT_THAT(text, HasSubstr("> 4 workers: 2 cores \\| 2 slots"));
}

TEST(ReportJson, HoldsResultsAndFaults) {
  const auto json = ReportJson(MakeSample());
  EXPECT_EQ(json["state"], "succeeded");
  EXPECT_EQ(json["results"]["weights_hash"], "ab12");
  EXPECT_EQ(json["faults"][0]["lost_steps"], 4);
  EXPECT_EQ(json["faults"][1]["class_name"], "node");
  EXPECT_NEAR(json["ledger"]["categories"]["lost work"]["seconds"].get<double>(), 4, 1e-12);
}

TEST(ReportJson, SaysByWhichWaySnapshotsWereTakenAndHowLongTheyWaited) {
  const auto snapshots = ReportJson(MakeSample())["snapshots"];
  EXPECT_EQ(snapshots["by_way"]["copied"], 2);
  EXPECT_EQ(snapshots["by_way"]["guarded"], 28);
  EXPECT_EQ(snapshots["by_way"]["forked"], 0);
  EXPECT_EQ(snapshots["waited_for_slots_seconds"], 0.5);
  EXPECT_EQ(snapshots["waited_for_slots_seconds_max"], 0.4);
}

TEST(MetricsCsv, HasALineAStep) {
  const std::string csv = MetricsCsv(History(), kStart_ns);
  const auto lines = Split(csv, '\n');
  ASSERT_EQ(lines.size(), 302u);
  EXPECT_EQ(lines[50], "50,1,27.500,2.807692,2.907692,0.500000,0.0,0.000000");
  EXPECT_EQ(lines[1].substr(0, 2), "1,");
}

TEST(Summary, FitsTheTerminalAndATypicalScreen) {
  for (const size_t columns : {30u, 80u, 120u}) {
    const auto lines = Summary(MakeSample(), {.columns = columns, .rows = 24, .color = false});
    EXPECT_LE(lines.size(), 28u);
    for (const std::string& line : lines) EXPECT_LE(Width(line), columns) << line;
  }
}

// A command that knows nothing of us: only its processes are known.
Report MakeStepless() {
  proto::JobStatus status;
  status.mutable_job()->set_name("ddp");
  status.mutable_job()->set_nodes(1);
  status.mutable_job()->set_processes_per_node(2);
  status.set_state(proto::FAILED);
  const std::string error =
      "worker 1 exited with code 1: Traceback (most recent call last):\n  File \"t.py\"\n"
      "ValueError: the data is bad";
  status.set_reason("failed 5 times without a step in between; the last time: " + error);
  AddTime(*status.mutable_ledger(), proto::UNREPORTED, 20);
  proto::Fault& fault = *status.add_faults();
  fault.set_number(1);
  fault.set_what(error);
  fault.set_happened_at_ns(At(1));
  fault.set_started_at_ns(At(1.5));
  return MakeReport(status, RunHistory(), RunFacts());
}

TEST(Summary, SaysNothingOfStepsThatACommandDoesNotReport) {
  const std::string text =
      Join(Summary(MakeStepless(), {.columns = 110, .rows = 24, .color = false}), "\n");
  EXPECT_THAT(text, HasSubstr("goodput      unknown: steps are not reported by the command"));
  EXPECT_THAT(text, HasSubstr("ValueError: the data is bad, processes ran again after 500 ms"));
  EXPECT_THAT(text, Not(HasSubstr("0 steps")));
  EXPECT_THAT(text, Not(HasSubstr("loss")));
  // The whole reason, over two lines.
  EXPECT_THAT(text, HasSubstr("because      failed 5 times"));
  EXPECT_THAT(text, HasSubstr("ValueError: the data is bad\n layout"));
}

proto::PlannedFault KillAt(uint64_t step) {
  proto::PlannedFault fault;
  fault.set_kind(proto::PlannedFault::KILL_WORKER);
  fault.set_target(1);
  fault.set_step(step);
  return fault;
}

TEST(Summary, NamesPlannedFaultsThatDidNotHappenAndWhy) {
  proto::JobStatus status = MakeStepless().status;
  *status.add_faults_to_come() = KillAt(20);
  const auto text = [&status] {
    const Report report = MakeReport(status, RunHistory(), RunFacts());
    EXPECT_EQ(ReportJson(report)["missed_faults"][0], "kill worker 1 at step 20");
    EXPECT_THAT(ReportMarkdown(report), HasSubstr("1 planned fault did not happen"));
    return Join(Summary(report, {.columns = 400, .rows = 24, .color = false}), "\n");
  };
  EXPECT_THAT(text(),
              HasSubstr("not injected 1 planned fault did not happen (kill worker 1 at step "
                        "20): the command reported no steps: read them from its output "
                        "with --step-pattern, or call longhaul.report(step)"));
  status.mutable_job()->mutable_workload()->set_step_pattern("x");
  EXPECT_THAT(text(), HasSubstr("no line of the command's output matched --step-pattern"));
  status.set_highest_step(10);
  EXPECT_THAT(text(), HasSubstr("the last step was 10"));
}

// Steps that were read from a command's output have a loss and no tokens.
TEST(Summary, ShowsTheLossOfACommand) {
  proto::JobStatus status = MakeStepless().status;
  status.set_highest_step(10);
  status.set_first_loss(4);
  status.set_loss(2);
  const Report report = MakeReport(status, RunHistory(), RunFacts());
  const std::string text =
      Join(Summary(report, {.columns = 110, .rows = 24, .color = false}), "\n");
  EXPECT_THAT(text, HasSubstr("loss         4.000 → 2.000"));
  EXPECT_THAT(text, Not(HasSubstr("tokens")));
  EXPECT_THAT(ReportMarkdown(report), Not(HasSubstr("nats a token")));
}

TEST(ReportMarkdown, ShowsATracebackWhole) {
  const std::string text = ReportMarkdown(MakeStepless());
  EXPECT_THAT(text, HasSubstr("| steps | not reported by the command |"));
  EXPECT_THAT(text, HasSubstr("### 1. worker 1 exited with code 1: ValueError"));
  EXPECT_THAT(text, HasSubstr("  File \"t.py\"\nValueError: the data is bad\n```"));
  EXPECT_THAT(text, Not(HasSubstr("loss.svg)")));
}

TEST(Charts, ShowLanesFaultsAndLegends) {
  const Report report = MakeSample();
  const std::string loss = LossChart(report, History());
  EXPECT_THAT(loss, HasSubstr(">training</text>"));
  EXPECT_THAT(loss, HasSubstr("worker 1 was killed by signal 9: restart in place"));
  const std::string timeline = TimelineChart(report, History());
  EXPECT_THAT(timeline, HasSubstr(">node-2</text>"));
  EXPECT_THAT(timeline, HasSubstr("node gone, 700 ms"));
  EXPECT_THAT(timeline, HasSubstr(">attempt 3</text>"));
}

TEST(Charts, SurviveARunWithNothingInIt) {
  const Report report = MakeReport(proto::JobStatus(), RunHistory(), RunFacts());
  EXPECT_THAT(LossChart(report, RunHistory()), HasSubstr("no step was reported"));
  EXPECT_THAT(TimelineChart(report, RunHistory()), HasSubstr("</svg>"));
  EXPECT_THAT(ReportMarkdown(report), HasSubstr("None was taken"));
  EXPECT_FALSE(Summary(report, {}).empty());
}

TEST(Charts, EscapeNames) {
  Report report = MakeSample();
  report.status.mutable_job()->set_name("<script>&");
  EXPECT_THAT(LossChart(report, History()), Not(HasSubstr("<script>")));
  EXPECT_THAT(TimelineChart(report, History()), Not(HasSubstr("<script>")));
}

TEST(Ticks, AreRoundAndInside) {
  EXPECT_THAT(Ticks(0, 300, 8), ElementsAre(0, 50, 100, 150, 200, 250, 300));
  EXPECT_THAT(Ticks(0.9, 3.2, 4), ElementsAre(1, 2, 3));
  EXPECT_EQ(TickText(0.25, 0.05), "0.25");
  EXPECT_EQ(TickText(20, 10), "20");
}

// With LONGHAUL_KEEP_ARTEFACTS=DIR the files stay, for looking at them.
TEST(Artefacts, AreAllWritten) {
  const char* keep = std::getenv("LONGHAUL_KEEP_ARTEFACTS");
  std::string path = (std::filesystem::temp_directory_path() / "artefacts-XXXXXX").string();
  ASSERT_NE(mkdtemp(path.data()), nullptr);
  const std::string directory = keep != nullptr ? keep : path;
  EXPECT_EQ(WriteArtefacts(directory, MakeSample(), History()), longhaul::Status());
  for (const char* name :
       {"metrics.csv", "report.md", "report.json", "report.html", "loss.svg", "timeline.svg"}) {
    EXPECT_GT(std::filesystem::file_size(directory + "/" + name), 100u) << name;
  }
  std::filesystem::remove_all(path);
}

}  // namespace
}  // namespace longhaul::frontend::report_test
