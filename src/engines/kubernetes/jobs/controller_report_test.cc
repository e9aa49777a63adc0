#include "engines/kubernetes/jobs/controller_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::engines::kubernetes {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kNodes =
    R"({"nodes": [{"name": "b", "connected": true}, {"name": "c", "connected": false},
                  {"name": "a", "connected": true}, 7]})";

TEST(ControllerReport, TheNewestJobAndItsNewestFaultCount) {
  const Result<ControllerReport> report = ReadControllerReport(
      R"({"jobs": [{"state": "failed"},
                   {"state": "running", "highest_step": 40, "restarts": 2,
                    "ledger": {"goodput": 0.75},
                    "faults": [{"what": "old"}, {"what": "rank 3 died", "action": "restart"}]}]})",
      kNodes);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->connected, ElementsAre("a", "b"));
  EXPECT_TRUE(report->training);
  EXPECT_FALSE(report->recovering);
  EXPECT_EQ(report->step, 40u);
  EXPECT_EQ(report->restarts, 2u);
  EXPECT_EQ(report->goodput, 0.75);
  EXPECT_EQ(report->fault, "rank 3 died; restart");
}

TEST(ControllerReport, AControllerWithoutAJobTrainsNothing) {
  const Result<ControllerReport> report = ReadControllerReport(R"({"jobs": []})", kNodes);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->training);
  EXPECT_EQ(report->connected.size(), 2u);
}

TEST(ControllerReport, ARecoveringJobDoesNotTrain) {
  const Result<ControllerReport> report = ReadControllerReport(
      R"({"jobs": [{"state": "recovering", "faults": [{"what": "w"}]}]})", R"({"nodes": []})");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->training);
  EXPECT_TRUE(report->recovering);
  EXPECT_EQ(report->fault, "w");
  EXPECT_THAT(report->connected, IsEmpty());
}

TEST(ControllerReport, FieldsOfOtherTypesAreAbsent) {
  const Result<ControllerReport> report = ReadControllerReport(
      R"({"jobs": [{"state": 1, "highest_step": -1, "restarts": "2",
                    "ledger": [], "faults": {}}]})",
      R"({"nodes": [{"name": 1, "connected": "true"}]})");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->training);
  EXPECT_EQ(report->step, 0u);
  EXPECT_EQ(report->restarts, 0u);
  EXPECT_THAT(report->connected, IsEmpty());
}

TEST(ControllerReport, AnAnswerWithoutItsListIsRefused) {
  for (const char* text : {"", "{", "[]", "{}", R"({"jobs": {}})"}) {
    const Result<ControllerReport> report = ReadControllerReport(text, kNodes);
    ASSERT_FALSE(report.ok()) << text;
    EXPECT_THAT(report.status().message(), HasSubstr("'jobs'"));
  }
  EXPECT_THAT(ReadControllerReport(R"({"jobs": []})", "{}").status().message(),
              HasSubstr("'nodes'"));
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
