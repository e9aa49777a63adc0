#include "runtime/agent/outbox.h"

#include <gtest/gtest.h>

namespace longhaul::runtime {
namespace {

proto::Event Steps(uint64_t first, uint64_t last, uint64_t attempt = 1) {
  proto::Event event;
  event.set_at_ns(static_cast<int64_t>(last));
  proto::StepReported& steps = *event.mutable_step_reported();
  steps.set_job_id("job-1");
  steps.set_attempt(attempt);
  steps.set_first_step(first);
  steps.set_last_step(last);
  steps.mutable_times()->set_data_ns(10);
  steps.set_has_loss(true);
  steps.set_loss(1.0 / static_cast<double>(last));
  steps.set_tokens(100);
  return event;
}

proto::Event Closed() {
  proto::Event event;
  event.mutable_attempt_closed()->set_job_id("job-1");
  return event;
}

std::vector<uint64_t> Sequences(const std::vector<proto::Event>& events) {
  std::vector<uint64_t> sequences;
  for (const proto::Event& event : events) sequences.push_back(event.sequence());
  return sequences;
}

using Numbers = std::vector<uint64_t>;

TEST(Outbox, NumbersEventsFromOneAndSendsEachOnceAStream) {
  Outbox outbox;
  outbox.Add(Closed());
  outbox.Add(Closed());
  EXPECT_EQ(Sequences(outbox.TakeUnsent()), (Numbers{1, 2}));
  outbox.Add(Closed());
  EXPECT_EQ(Sequences(outbox.TakeUnsent()), (Numbers{3}));
}

TEST(Outbox, SendsWhatIsNotAcknowledgedAgainOnANewStream) {
  Outbox outbox;
  for (int i = 0; i < 4; ++i) outbox.Add(Closed());
  outbox.TakeUnsent();
  outbox.Acknowledge(2);
  outbox.ForgetSent();
  EXPECT_EQ(Sequences(outbox.TakeUnsent()), (Numbers{3, 4}));
  outbox.Acknowledge(99);
  EXPECT_TRUE(outbox.empty());
  outbox.Add(Closed());
  EXPECT_EQ(Sequences(outbox.TakeUnsent()), (Numbers{5}));
}

TEST(Outbox, MergesConsecutiveStepsThatWereNeverSent) {
  Outbox outbox(/*merge_from=*/0);
  outbox.Add(Steps(1, 1));
  outbox.Add(Steps(2, 3));
  const std::vector<proto::Event> sent = outbox.TakeUnsent();
  ASSERT_EQ(sent.size(), 1u);
  const proto::StepReported& merged = sent[0].step_reported();
  EXPECT_EQ(merged.first_step(), 1u);
  EXPECT_EQ(merged.last_step(), 3u);
  EXPECT_EQ(merged.times().data_ns(), 20);
  EXPECT_EQ(merged.tokens(), 200u);
  EXPECT_EQ(merged.loss(), 1.0 / 3);
  EXPECT_EQ(sent[0].at_ns(), 3);
}

TEST(Outbox, KeepsEachStepOfAShortAbsence) {
  Outbox outbox;
  for (uint64_t step = 1; step <= kOutboxMergeFrom + 9; ++step) outbox.Add(Steps(step, step));
  EXPECT_EQ(outbox.size(), kOutboxMergeFrom);
}

TEST(Outbox, NeverChangesWhatWasSent) {
  Outbox outbox(/*merge_from=*/0);
  outbox.Add(Steps(1, 1));
  outbox.TakeUnsent();
  outbox.ForgetSent();
  outbox.Add(Steps(2, 2));
  EXPECT_EQ(Sequences(outbox.TakeUnsent()), (Numbers{1, 2}));
}

TEST(Outbox, KeepsOrderAttemptsGapsAndValidationsApart) {
  const struct {
    const char* name;
    proto::Event first;
    proto::Event between;
    proto::Event second;
    size_t want;
  } kRows[] = {
      {"another event between", Steps(1, 1), Closed(), Steps(2, 2), 3},
      {"another attempt", Steps(1, 1, 1), Steps(2, 2, 2), Steps(3, 3, 1), 3},
      {"a gap", Steps(1, 1), Steps(3, 3), Steps(4, 4), 2},
  };
  for (const auto& row : kRows) {
    Outbox outbox(/*merge_from=*/0);
    outbox.Add(row.first);
    outbox.Add(row.between);
    outbox.Add(row.second);
    EXPECT_EQ(outbox.size(), row.want) << row.name;
  }
  Outbox outbox(/*merge_from=*/0);
  proto::Event validated = Steps(1, 1);
  validated.mutable_step_reported()->set_has_validation_loss(true);
  outbox.Add(validated);
  outbox.Add(Steps(2, 2));
  EXPECT_EQ(outbox.size(), 2u) << "its validation would be reported for another step";
}

TEST(Outbox, StaysBoundedAndLosesNeitherStepsNorDeaths) {
  Outbox outbox(/*merge_from=*/0);
  for (size_t i = 0; i < kOutboxLimit; ++i) {
    outbox.Add(Steps(2 * i + 1, 2 * i + 1));  // each second step: no merging
  }
  outbox.Add(Steps(2 * kOutboxLimit, 2 * kOutboxLimit + 5));
  proto::Event sealed;
  sealed.mutable_snapshot_sealed()->set_step(1);
  outbox.Add(sealed);
  EXPECT_EQ(outbox.size(), kOutboxLimit);
  outbox.Add(Closed());
  EXPECT_EQ(outbox.size(), kOutboxLimit + 1);
  outbox.Add(Steps(2 * kOutboxLimit + 6, 2 * kOutboxLimit + 7));
  EXPECT_EQ(outbox.size(), kOutboxLimit + 1) << "merged past the death";
  EXPECT_TRUE(outbox.CheckInvariants().ok());
}

TEST(Outbox, KeepsTheResultOfAWorkerBehindAHundredThousandReports) {
  Outbox outbox(/*merge_from=*/0);
  for (size_t i = 0; i < kOutboxLimit; ++i) outbox.Add(Steps(2 * i + 1, 2 * i + 1));
  proto::Event result;
  result.mutable_worker_result()->set_json("{}");
  outbox.Add(result);
  EXPECT_EQ(outbox.size(), kOutboxLimit + 1);
  for (size_t i = 0; i < kOutboxLimit; ++i) outbox.Add(result);
  EXPECT_EQ(outbox.size(), 2 * kOutboxLimit) << "however many a worker sends";
}

}  // namespace
}  // namespace longhaul::runtime
