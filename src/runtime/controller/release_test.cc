// Arrays and dependencies: what is offered to the scheduler when, and what becomes of jobs that
// can never start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "runtime/controller/cluster_fixture.h"
#include "runtime/controller/release_table.h"

namespace longhaul::runtime::release_test {
namespace {

using controller::DependencyState;
using controller::JobOutcome;
using controller_testing::Cluster;
using testing::HasSubstr;

proto::Job Command(const std::string& id) {
  proto::Job job;
  job.set_id(id);
  job.set_name(id.substr(0, id.rfind('-')));
  job.set_nodes(1);
  job.set_processes_per_node(1);
  job.mutable_workload()->add_command("true");
  job.mutable_snapshot()->set_keep(1);
  job.set_run_directory("/runs/" + id);
  return job;
}

proto::Job ArrayOf(const std::string& id, uint32_t count, uint32_t at_once = 0) {
  proto::Job job = Command(id);
  job.mutable_array()->set_count(count);
  job.mutable_array()->set_at_once(at_once);
  return job;
}

proto::Job After(proto::Job job, const std::vector<std::string>& others,
                 proto::Dependencies::When when = proto::Dependencies::SUCCESS) {
  for (const std::string& other : others) job.mutable_after()->add_jobs(other);
  job.mutable_after()->set_when(when);
  return job;
}

// Nodes of two slots each.
class Farm : public Cluster {
 public:
  explicit Farm(int nodes = 1) {
    for (int i = 1; i <= nodes; ++i) Join("node-" + std::to_string(i));
  }

  proto::JobStatus Of(const std::string& id) const {
    return controller.JobStatus(JobId(id), now).value();
  }
  proto::JobState StateOf(const std::string& id) const { return Of(id).state(); }

  // Its only worker starts and exits with the code.
  void Finish(const std::string& id, int exit_code = 0) {
    const proto::JobStatus job = Of(id);
    ASSERT_EQ(job.state(), proto::STARTING) << id << " " << job.reason();
    const std::string& node = job.gang(0);
    proto::StoreOpened opened;
    opened.set_job_id(id);
    opened.set_attempt(job.attempt());
    opened.set_port(4000);
    Report(node, &proto::Event::mutable_store_opened, opened);
    proto::WorkersStarted started;
    started.set_job_id(id);
    started.set_attempt(job.attempt());
    Report(node, &proto::Event::mutable_workers_started, started);
    proto::WorkerExited exited;
    exited.set_job_id(id);
    exited.set_attempt(job.attempt());
    exited.set_exit_code(exit_code);
    Report(node, &proto::Event::mutable_worker_exited, exited);
    proto::AttemptClosed closed;
    closed.set_job_id(id);
    closed.set_attempt(job.attempt());
    Report(node, &proto::Event::mutable_attempt_closed, closed);
    if (exit_code != 0) TickUntil(now + std::chrono::seconds(70));
  }

  void Stop(const std::string& id) {
    proto::Event event;
    event.mutable_job_stop_requested()->set_job_id(id);
    Feed(event);
  }
  void Release(const std::string& id) {
    proto::Event event;
    event.mutable_changes_asked()->add_changes()->set_release(id);
    Feed(event);
  }
  void SubmitAll(const std::vector<proto::Job>& jobs) {
    proto::Event event;
    for (const proto::Job& job : jobs) *event.mutable_jobs_submitted()->add_jobs() = job;
    Feed(event);
  }
  std::map<proto::JobState, int> Counts(const std::string& array) const {
    std::map<proto::JobState, int> counts;
    for (const auto& element : controller.Elements(JobId(array), now)) ++counts[element.state()];
    return counts;
  }
  std::string WhyNot(const proto::Job& job) const {
    return std::string(controller.CheckSubmission(job).message());
  }
  // The events so far lead another controller to the same state.
  void ExpectReplay() const {
    Controller again{ControllerOptions()};
    for (const auto& [at, event] : log) again.Step(event, at);
    EXPECT_EQ(again.StateHash(), controller.StateHash());
  }
};

TEST(Dependencies, FollowTheTableOfOutcomes) {
  constexpr auto kWaits = DependencyState::kWaits;
  constexpr auto kSatisfied = DependencyState::kSatisfied;
  constexpr auto kNever = DependencyState::kNever;
  const struct {
    JobOutcome outcome;
    DependencyState success, end, failure;
  } kRows[] = {
      {{.ended = false, .failed = false}, kWaits, kWaits, kWaits},
      {{.ended = false, .failed = true}, kNever, kWaits, kWaits},  // an element failed
      {{.ended = true, .failed = false}, kSatisfied, kSatisfied, kNever},
      {{.ended = true, .failed = true}, kNever, kSatisfied, kSatisfied},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(controller::StateOf(proto::Dependencies::SUCCESS, row.outcome), row.success);
    EXPECT_EQ(controller::StateOf(proto::Dependencies::END, row.outcome), row.end);
    EXPECT_EQ(controller::StateOf(proto::Dependencies::FAILURE, row.outcome), row.failure);
  }
}

TEST(Arrays, OneEventMakesAJobOfEachElement) {
  Farm farm(2);
  proto::Job sweep = ArrayOf("sweep-1", 3);
  for (const char* value : {"a", "b c", ""}) sweep.mutable_array()->add_values(value);
  farm.Submit(sweep);
  const auto elements = farm.controller.Elements(JobId("sweep-1"), farm.now);
  ASSERT_EQ(elements.size(), 3u);
  const proto::Job& second = elements[1].job();
  EXPECT_EQ(second.id(), "sweep-1_1");
  EXPECT_EQ(second.run_directory(), "/runs/sweep-1/1");
  EXPECT_FALSE(second.has_array());
  const auto& environment = second.workload().environment();
  EXPECT_EQ(environment.at("LONGHAUL_ARRAY_ID"), "sweep-1");
  EXPECT_EQ(environment.at("LONGHAUL_ARRAY_INDEX"), "1");
  EXPECT_EQ(environment.at("LONGHAUL_ARRAY_COUNT"), "3");
  EXPECT_EQ(environment.at("LONGHAUL_ARRAY_VALUE"), "b c");
  EXPECT_EQ(farm.Counts("sweep-1")[proto::STARTING], 3);
  farm.ExpectReplay();
}

TEST(Arrays, AnArrayWithoutValuesSetsNoValue) {
  Farm farm;
  farm.Submit(ArrayOf("sweep-1", 2));
  EXPECT_FALSE(
      farm.Of("sweep-1_0").job().workload().environment().contains("LONGHAUL_ARRAY_VALUE"));
}

TEST(Arrays, OnlyAsManyElementsHaveNodesAsAllowed) {
  Farm farm(4);
  farm.Submit(ArrayOf("sweep-1", 5, 2));
  EXPECT_EQ(farm.Counts("sweep-1")[proto::STARTING], 2);
  EXPECT_EQ(farm.StateOf("sweep-1_1"), proto::STARTING);
  EXPECT_THAT(farm.Of("sweep-1_2").reason(), HasSubstr("one of the 2 elements of array sweep-1"));
  farm.Finish("sweep-1_1");
  EXPECT_EQ(farm.StateOf("sweep-1_2"), proto::STARTING);
  EXPECT_EQ(farm.Counts("sweep-1")[proto::STARTING], 2);
  // One that is stopped before its turn takes no place.
  farm.Stop("sweep-1_3");
  EXPECT_EQ(farm.StateOf("sweep-1_3"), proto::STOPPED);
  EXPECT_EQ(farm.Counts("sweep-1")[proto::STARTING], 2);
  farm.Finish("sweep-1_0");
  EXPECT_EQ(farm.StateOf("sweep-1_4"), proto::STARTING);
  farm.Finish("sweep-1_2");
  farm.Finish("sweep-1_4");
  EXPECT_EQ(farm.StateOf("sweep-1"), proto::STOPPED);
  EXPECT_EQ(farm.Of("sweep-1").reason(), "4 of 5 elements succeeded");
  farm.ExpectReplay();
}

TEST(Arrays, AreOneLineOfTheListing) {
  Farm farm;
  farm.Submit(Command("first-1"));
  farm.Submit(ArrayOf("sweep-1", 4));
  farm.Submit(Command("last-1"));
  const auto listing = farm.controller.Listing(farm.now);
  ASSERT_EQ(listing.size(), 3u);
  EXPECT_EQ(listing[1].job().id(), "sweep-1");
  EXPECT_EQ(listing[1].state(), proto::RUNNING);
  std::map<proto::JobState, uint32_t> counts;
  for (const auto& count : listing[1].elements()) counts[count.state()] = count.jobs();
  EXPECT_EQ(counts,
            (std::map<proto::JobState, uint32_t>{{proto::STARTING, 1}, {proto::QUEUED, 3}}));
  EXPECT_EQ(farm.controller.AllJobs(farm.now).size(), 6u);
}

TEST(Arrays, AreStoppedAsAWhole) {
  Farm farm;
  farm.Submit(ArrayOf("sweep-1", 6, 3));
  EXPECT_EQ(farm.Counts("sweep-1")[proto::STARTING], 2);  // of 3 that may, with two slots
  farm.Stop("sweep-1");
  EXPECT_EQ(farm.Counts("sweep-1")[proto::STOPPED], 4);
  EXPECT_EQ(farm.Counts("sweep-1")[proto::STOPPING], 2);
  farm.TickUntil(farm.now + std::chrono::minutes(2));
  EXPECT_EQ(farm.StateOf("sweep-1"), proto::STOPPED);
  farm.ExpectReplay();
}

TEST(Arrays, AreRefusedBeyondTheLimits) {
  Farm farm;
  EXPECT_THAT(farm.WhyNot(ArrayOf("sweep-1", 10'001)),
              HasSubstr("10,001 elements; this controller accepts at most 10,000 "
                        "(scheduling.array_limit of its file)"));
  EXPECT_EQ(farm.WhyNot(ArrayOf("sweep-1", 10'000)), "");
  EXPECT_THAT(farm.WhyNot(ArrayOf("sweep-1", 0)), HasSubstr("no elements"));
  proto::Job values = ArrayOf("sweep-1", 3);
  values.mutable_array()->add_values("a");
  EXPECT_THAT(farm.WhyNot(values), HasSubstr("3 elements and 1 values"));
  proto::Job large = ArrayOf("sweep-1", 10'000);
  large.mutable_workload()->add_command(std::string(30'000, 'x'));
  EXPECT_THAT(farm.WhyNot(large), HasSubstr("are more than 256 MiB"));
  // What is refused leaves nothing.
  farm.Submit(ArrayOf("sweep-1", 10'001));
  EXPECT_TRUE(farm.controller.AllJobs(farm.now).empty());
  EXPECT_FALSE(farm.controller.JobStatus(JobId("sweep-1"), farm.now).has_value());
}

// As large as the limit, and short of nothing: quick enough for one event.
TEST(Arrays, OfTenThousandElementsAreSubmittedAndStopped) {
  Farm farm;
  farm.Submit(ArrayOf("sweep-1", 10'000));
  EXPECT_EQ(farm.Counts("sweep-1")[proto::STARTING], 2);
  EXPECT_EQ(farm.Of("sweep-1_9999").reason(),
            "waits behind other elements of array sweep-1, such as sweep-1_2");
  farm.Stop("sweep-1");
  EXPECT_EQ(farm.Counts("sweep-1")[proto::STOPPED], 9'998);
}

// Only some of the waiting elements are offered at a time: still all that fit start at once, and
// the array keeps its place before jobs that came later.
TEST(Arrays, FillAllNodesAndKeepTheirPlace) {
  Farm farm(100);
  farm.Submit(ArrayOf("sweep-1", 300));
  farm.now += std::chrono::seconds(1);
  farm.Submit(Command("later-1"));
  EXPECT_EQ(farm.Counts("sweep-1")[proto::STARTING], 200);
  farm.now += std::chrono::hours(1);
  for (int i = 0; i < 100; ++i) farm.Finish("sweep-1_" + std::to_string(i));
  EXPECT_EQ(farm.Counts("sweep-1")[proto::STARTING], 200);
  EXPECT_EQ(farm.StateOf("later-1"), proto::QUEUED);
  EXPECT_EQ(farm.StateOf("sweep-1_299"), proto::STARTING);
  farm.Finish("sweep-1_299");
  EXPECT_EQ(farm.StateOf("later-1"), proto::STARTING);
  farm.ExpectReplay();
}

TEST(Arrays, KeepTheirDirectoryToThemselves) {
  Farm farm;
  farm.Submit(ArrayOf("sweep-1", 2));
  proto::Job other = Command("other-1");
  other.set_run_directory("/runs/sweep-1");
  EXPECT_THAT(farm.WhyNot(other), HasSubstr("is running in /runs/sweep-1 already"));
  EXPECT_THAT(farm.WhyNot(ArrayOf("sweep-1", 2)), HasSubstr("there is a job sweep-1 already"));
}

TEST(Dependencies, AJobWaitsUntilTheOtherHasSucceeded) {
  Farm farm;
  farm.Submit(Command("a-1"));
  farm.Submit(After(Command("b-1"), {"a-1"}));
  EXPECT_EQ(farm.StateOf("b-1"), proto::QUEUED);
  EXPECT_EQ(farm.Of("b-1").reason(), "waits for job a-1 to succeed");
  const auto question = farm.controller.AskWhy(JobId("b-1"));
  EXPECT_EQ(question.held, "waits for job a-1 to succeed");
  EXPECT_EQ(question.unit, "b-1");
  EXPECT_TRUE(question.depends);
  farm.Finish("a-1");
  EXPECT_EQ(farm.StateOf("b-1"), proto::STARTING);
  EXPECT_EQ(farm.controller.AskWhy(JobId("b-1")).held, "");
  farm.ExpectReplay();
}

TEST(Dependencies, ThatCanNeverBeSatisfiedEndTheJobAndItsDependants) {
  Farm farm;
  farm.SubmitAll({Command("a-1"), After(Command("b-1"), {"a-1"}), After(Command("c-1"), {"b-1"}),
                  After(ArrayOf("d-1", 3), {"c-1"}),
                  After(Command("e-1"), {"b-1"}, proto::Dependencies::FAILURE)});
  EXPECT_EQ(farm.StateOf("e-1"), proto::QUEUED);
  farm.Finish("a-1", 1);
  EXPECT_EQ(farm.StateOf("a-1"), proto::FAILED);
  EXPECT_EQ(farm.StateOf("b-1"), proto::STOPPED);
  EXPECT_EQ(farm.Of("b-1").reason(),
            "never started: job a-1 did not succeed, and it waited for it to succeed");
  EXPECT_EQ(farm.Of("c-1").reason(),
            "never started: job b-1 did not succeed, and it waited for it to succeed");
  EXPECT_EQ(farm.Counts("d-1")[proto::STOPPED], 3);
  EXPECT_EQ(farm.StateOf("e-1"), proto::STARTING);
  farm.ExpectReplay();
}

TEST(Dependencies, OnTheEndAreSatisfiedByFailureAndByAStop) {
  Farm farm;
  farm.SubmitAll({Command("a-1"), Command("b-1"),
                  After(Command("c-1"), {"a-1", "b-1"}, proto::Dependencies::END)});
  farm.Finish("a-1", 1);
  EXPECT_EQ(farm.Of("c-1").reason(), "waits for job b-1 to end");
  farm.Stop("b-1");
  farm.TickUntil(farm.now + std::chrono::minutes(2));
  EXPECT_EQ(farm.StateOf("b-1"), proto::STOPPED);
  EXPECT_EQ(farm.StateOf("c-1"), proto::STARTING);
}

TEST(Dependencies, OnAFailureAreNeverSatisfiedByASuccess) {
  Farm farm;
  farm.SubmitAll({Command("a-1"), After(Command("b-1"), {"a-1"}, proto::Dependencies::FAILURE)});
  EXPECT_EQ(farm.Of("b-1").reason(), "waits for job a-1 to fail");
  farm.Finish("a-1");
  EXPECT_EQ(farm.Of("b-1").reason(),
            "never started: job a-1 succeeded, and it waited for it to fail");
}

TEST(Dependencies, OnAnArrayConcernAllItsElements) {
  Farm farm;
  farm.SubmitAll({ArrayOf("sweep-1", 2), After(Command("all-1"), {"sweep-1"}),
                  After(Command("one-1"), {"sweep-1_1"}),
                  After(Command("end-1"), {"sweep-1"}, proto::Dependencies::END)});
  EXPECT_EQ(farm.Of("all-1").reason(), "waits for array sweep-1 to succeed");
  EXPECT_EQ(farm.Of("one-1").reason(), "waits for job sweep-1_1 to succeed");
  farm.Finish("sweep-1_1");
  EXPECT_EQ(farm.StateOf("all-1"), proto::QUEUED);
  EXPECT_EQ(farm.StateOf("one-1"), proto::STARTING);
  farm.Finish("one-1");
  farm.Finish("sweep-1_0", 3);
  EXPECT_EQ(farm.StateOf("sweep-1"), proto::FAILED);
  EXPECT_EQ(farm.Of("all-1").reason(),
            "never started: an element of array sweep-1 did not succeed, and it waited for it to "
            "succeed");
  EXPECT_EQ(farm.StateOf("end-1"), proto::STARTING);
}

TEST(Dependencies, OnEarlierJobsAreKnownAfterTheirEnd) {
  Farm farm;
  farm.Submit(Command("good-1"));
  farm.Finish("good-1");
  farm.Submit(Command("bad-1"));
  farm.Finish("bad-1", 1);
  farm.Submit(After(Command("b-1"), {"good-1"}));
  EXPECT_EQ(farm.StateOf("b-1"), proto::STARTING);
  EXPECT_THAT(farm.WhyNot(After(Command("c-1"), {"bad-1"})),
              HasSubstr("after: job bad-1 did not succeed, so a job that waits for it to succeed "
                        "would never start"));
  EXPECT_THAT(farm.WhyNot(After(Command("c-1"), {"good-1"}, proto::Dependencies::FAILURE)),
              HasSubstr("job good-1 succeeded, so a job that waits for it to fail"));
  EXPECT_EQ(farm.WhyNot(After(Command("c-1"), {"bad-1"}, proto::Dependencies::END)), "");
  EXPECT_THAT(farm.WhyNot(After(Command("c-1"), {"none-1"})),
              HasSubstr("no job with the id none-1"));
  EXPECT_THAT(farm.WhyNot(After(Command("c-1"), {"c-1"})), HasSubstr("no job with the id c-1"));
}

TEST(Dependencies, ASubmissionIsAcceptedAsAWholeOrNot) {
  Farm farm;
  farm.SubmitAll({Command("a-1"), After(Command("b-1"), {"later-1"}), Command("later-1")});
  EXPECT_TRUE(farm.controller.AllJobs(farm.now).empty());
  farm.SubmitAll({Command("a-1"), Command("a-1")});
  EXPECT_TRUE(farm.controller.AllJobs(farm.now).empty());
  proto::Job same = Command("b-1");
  same.set_run_directory("/runs/a-1");
  farm.SubmitAll({Command("a-1"), same});
  EXPECT_TRUE(farm.controller.AllJobs(farm.now).empty());
  farm.ExpectReplay();
}

TEST(Dependencies, AnOperatorMayDropThem) {
  Farm farm;
  farm.Submit(Command("a-1"));
  farm.Submit(After(ArrayOf("sweep-1", 3, 1), {"a-1"}));
  proto::ChangesAsked asked;
  asked.add_changes()->set_expedite("sweep-1_0");
  EXPECT_THAT(farm.controller.CheckChanges(asked).message(), HasSubstr("waits for job a-1"));
  farm.Release("sweep-1");
  EXPECT_EQ(farm.StateOf("sweep-1_0"), proto::STARTING);
  EXPECT_EQ(farm.StateOf("sweep-1_1"), proto::QUEUED);
  asked.mutable_changes(0)->set_release("sweep-1");
  EXPECT_THAT(farm.controller.CheckChanges(asked).message(), HasSubstr("does not wait for other"));
  asked.mutable_changes(0)->set_release("none");
  EXPECT_EQ(farm.controller.CheckChanges(asked).code(), Code::kNotFound);
  farm.Finish("a-1", 1);  // no longer matters
  EXPECT_EQ(farm.StateOf("sweep-1_0"), proto::STARTING);
  farm.ExpectReplay();
}

TEST(Resolve, KnowsIdsAndNamesOfJobsAndArrays) {
  Farm farm;
  farm.Submit(Command("train-1"));
  farm.Submit(ArrayOf("sweep-1", 2));
  farm.Submit(Command("twice-1"));
  farm.Submit(Command("twice-2"));
  EXPECT_EQ(*farm.controller.Resolve("train"), JobId("train-1"));
  EXPECT_EQ(*farm.controller.Resolve("sweep"), JobId("sweep-1"));
  EXPECT_EQ(*farm.controller.Resolve("sweep-1"), JobId("sweep-1"));
  EXPECT_EQ(*farm.controller.Resolve("sweep-1_1"), JobId("sweep-1_1"));
  EXPECT_THAT(farm.controller.Resolve("sweep-1_2").status().message(), HasSubstr("no job"));
  EXPECT_THAT(farm.controller.Resolve("sweep-1_01").status().message(), HasSubstr("no job"));
  EXPECT_THAT(farm.controller.Resolve("trian").status().message(),
              HasSubstr("did you mean train?"));
  EXPECT_THAT(farm.controller.Resolve("twice").status().message(), HasSubstr("twice-1, twice-2"));
}

}  // namespace
}  // namespace longhaul::runtime::release_test
