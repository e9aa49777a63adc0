#include "service/controller/metrics/metrics.h"

#include <gtest/gtest.h>

namespace longhaul::service::metrics_test {

using std::chrono::minutes;
using std::chrono::seconds;

const Instant kNow = Instant{} + std::chrono::hours(1000);

MetricsInput InputWith(proto::JobStatus job) {
  MetricsInput input;
  input.now = kNow;
  input.jobs.push_back(std::move(job));
  return input;
}

proto::JobStatus Running() {
  proto::JobStatus job;
  job.mutable_job()->set_id("train");
  job.mutable_job()->mutable_scheduling()->set_queue("research");
  job.set_state(proto::RUNNING);
  return job;
}

std::string Render(const MetricsInput& input) {
  return RenderMetrics(input, MetricsFormat::kPrometheus);
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void AddFault(proto::JobStatus& job, Instant happened, Duration recovered) {
  proto::Fault& fault = *job.add_faults();
  fault.set_number(static_cast<uint32_t>(job.faults_size()));
  fault.set_class_name("process");
  fault.set_node("node-1");
  fault.set_happened_at_ns(ToNanoseconds(happened));
  if (recovered.count() > 0) fault.set_first_step_at_ns(ToNanoseconds(happened + recovered));
}

TEST(Metrics, WhatIsNotKnownHasNoSample) {
  const std::string text = Render(InputWith(Running()));
  EXPECT_FALSE(Contains(text, "\nlonghaul_job_loss{")) << text;
  EXPECT_FALSE(Contains(text, "\nlonghaul_job_last_step_timestamp_seconds{"));
  EXPECT_TRUE(Contains(text, "\nlonghaul_job_step{job_id=\"train\"} 0\n"));
}

TEST(Metrics, EachStateIsZeroOrOne) {
  const std::string text = Render(InputWith(Running()));
  EXPECT_TRUE(Contains(text, "longhaul_job_state{job_id=\"train\",state=\"running\"} 1\n")) << text;
  EXPECT_TRUE(Contains(text, "longhaul_job_state{job_id=\"train\",state=\"queued\"} 0\n"));
  EXPECT_TRUE(Contains(text, "longhaul_job_state{job_id=\"train\",state=\"leaving\"} 0\n"));
}

TEST(Metrics, AJobThatEndedIsLeftOutAQuarterOfAnHourLater) {
  proto::JobStatus job = Running();
  job.set_ended_at_ns(ToNanoseconds(kNow - minutes(15)));
  EXPECT_TRUE(Contains(Render(InputWith(job)), "\"train\""));
  job.set_ended_at_ns(ToNanoseconds(kNow - minutes(15) - seconds(1)));
  EXPECT_FALSE(Contains(Render(InputWith(job)), "\"train\""));
}

TEST(Metrics, RecoveryIsFromTheFaultToTheFirstStepAfterIt) {
  proto::JobStatus job = Running();
  AddFault(job, kNow - seconds(50), std::chrono::milliseconds(200));
  AddFault(job, kNow - seconds(20), seconds(4));
  AddFault(job, kNow - seconds(1), Duration(0));  // not over
  const std::string text = RenderMetrics(InputWith(job), MetricsFormat::kOpenMetrics);
  EXPECT_TRUE(Contains(text, "longhaul_job_faults_total{job_id=\"train\"} 3\n")) << text;
  EXPECT_TRUE(Contains(text,
                       "longhaul_fault_recovery_seconds_bucket{job_id=\"train\",le=\"5\"} 2 # "
                       "{fault=\"2\",class=\"process\",node=\"node-1\"} 4 3599984.000\n"))
      << text;
  EXPECT_TRUE(Contains(text, "_count{job_id=\"train\"} 2\n")) << text;
}

TEST(Metrics, AQueueWithoutALimitHasAnInfiniteOne) {
  MetricsInput input = InputWith(Running());
  proto::QueueStatus& queue = input.queues.emplace_back();
  queue.set_name("research");
  queue.mutable_limit()->set_accelerators(-1);
  queue.mutable_guarantee()->set_accelerators(8);
  const std::string text = Render(input);
  EXPECT_TRUE(Contains(text, "longhaul_queue_limit_accelerators{queue=\"research\"} +Inf\n"));
  EXPECT_TRUE(Contains(text, "longhaul_queue_guaranteed_accelerators{queue=\"research\"} 8\n"));
}

}  // namespace longhaul::service::metrics_test
