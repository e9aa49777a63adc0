#include "service/controller/rest/changes/what_if_request.h"

#include <gtest/gtest.h>

namespace longhaul::service {
namespace {

using runtime::scheduling::WhatIfAnswer;
using runtime::scheduling::WhatIfChange;
using runtime::scheduling::WhatIfEffect;
using std::chrono::hours;

TEST(WhatIfRequest, ReadsTextsAndJobs) {
  const auto request = ParseWhatIf(
      R"({"changes": ["drain rack-3", {"submit": "command: [a]", "source": "a.yaml", "name": "b"}],
          "horizon": "2d"})");
  ASSERT_TRUE(request.ok()) << request.status();
  ASSERT_EQ(request->changes.size(), 2u);
  EXPECT_EQ(request->changes[0].change.kind, WhatIfChange::Kind::kDrain);
  EXPECT_FALSE(request->changes[0].submission.has_value());
  ASSERT_TRUE(request->changes[1].submission.has_value());
  EXPECT_EQ(request->changes[1].submission->job, "command: [a]");
  EXPECT_EQ(request->changes[1].submission->name, "b");
  EXPECT_TRUE(request->changes[1].submission->sketch) << "no data are prepared";
  EXPECT_EQ(request->horizon, hours(48));
  EXPECT_EQ(ParseWhatIf(R"({"changes": ["stop a"]})")->horizon, hours(24));
}

TEST(WhatIfRequest, NamesTheWrongChange) {
  const struct {
    const char* body;
    const char* part;
  } kRows[] = {
      {R"({})", "\"changes\" must be a list of 1 to 100 changes"},
      {R"({"changes": []})", "\"changes\" must be a list of 1 to 100 changes"},
      {R"({"changes": "drain a"})", "\"changes\" must be a list"},
      {R"({"changes": ["stop a", "reboot a"]})", "change 2: 'reboot' is not a change"},
      {R"({"changes": [7]})", "change 1: a change is a text, or an object with \"submit\""},
      {R"({"changes": ["submit a.yaml"]})", "change 1: a job to submit is an object"},
      {R"({"changes": [{"submit": 7}]})", "text or an object"},
      {R"({"changes": [{"submit": "a", "resume": true}]})", "resume"},
      {R"({"changes": ["stop a"], "horizon": "0s"})",
       "\"horizon\": '0s' is not a time such as 24h"},
      {R"({"changes": ["stop a"], "horizon": "400d"})", "at most 366d"},
      {R"({"changes": ["stop a"], "horizon": 7})", "\"horizon\" must be a text"},
      {R"({"changes": ["stop a"], "days": 7})", "days"},
  };
  for (const auto& row : kRows) {
    const Status status = ParseWhatIf(row.body).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << row.body;
    EXPECT_NE(status.message().find(row.part), std::string::npos) << row.body << " -> " << status;
  }
}

TEST(WhatIfRequest, WritesEffectsWithTheirMoments) {
  WhatIfAnswer answer;
  answer.now = InstantFromNanoseconds(1'000);
  answer.until = answer.now + hours(24);
  answer.rows.push_back({"a", WhatIfEffect::kStartsNow, answer.now + hours(3), answer.now, {}, ""});
  answer.rows.push_back({"b", WhatIfEffect::kStopped, {}, answer.now + hours(1), {}, ""});
  const auto json = ToJson(answer);
  EXPECT_EQ(json["jobs"][0]["effect"], "starts-now");
  EXPECT_EQ(json["jobs"][0]["after_ns"], 1'000);
  EXPECT_EQ(json["jobs"][0]["sentence"], "starts now; without the change it starts in 3 h 0 min");
  EXPECT_FALSE(json["jobs"][0].contains("resumes_ns"));
  EXPECT_TRUE(json["jobs"][1]["before_ns"].is_null());
  EXPECT_TRUE(json["jobs"][1]["resumes_ns"].is_null());
  EXPECT_EQ(json["jobs"][1]["sentence"],
            "is stopped in 1 h 0 min and continues not within the horizon");
}

}  // namespace
}  // namespace longhaul::service
