#include "service/controller/rest/usage_request.h"

#include <gtest/gtest.h>

namespace longhaul::service::usage_request_test {
namespace {

using runtime::UsageKey;
using std::chrono::hours;

const Instant kNow = InstantFromNanoseconds(1'790'000'000'000'000'000);

TEST(UsageRequest, IsTheLastThirtyDaysByUserWithoutParameters) {
  const auto query = ParseUsageQuery({}, kNow);
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_EQ(query->by, std::vector<UsageKey>{UsageKey::kUser});
  EXPECT_EQ(query->since, kNow - hours(30 * 24));
  EXPECT_EQ(query->until, kNow);
}

TEST(UsageRequest, ReadsKeysAndTimes) {
  const auto query = ParseUsageQuery(
      {{"by", "project, kind,job"}, {"since", "2026-01-31"}, {"until", "2026-02-01T12:30Z"}}, kNow);
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_EQ(query->by,
            (std::vector<UsageKey>{UsageKey::kProject, UsageKey::kKind, UsageKey::kJob}));
  EXPECT_EQ(ToString(query->since), "2026-01-31T00:00:00.000Z");
  EXPECT_EQ(ToString(query->until), "2026-02-01T12:30:00.000Z");
  // The future has no usage yet.
  EXPECT_EQ(ParseUsageQuery({{"until", "2199-01-01"}}, kNow)->until, kNow);
}

TEST(UsageRequest, NamesWhatIsWrong) {
  const struct {
    std::map<std::string, std::string> query;
    const char* part;
  } kRows[] = {
      {{{"by", "usr"}}, "by: 'usr' is not a way to group usage, did you mean 'user'"},
      {{{"by", "user,user"}}, "by: 'user' is named twice"},
      {{{"by", ""}}, "expected user, project, queue, kind or job"},
      {{{"by", "user,"}}, "expected user, project, queue, kind or job"},
      {{{"since", "yesterday"}}, "since: 'yesterday' is not a time: write a duration before now"},
      {{{"since", "-3d"}}, "since: '-3d' is not a time"},
      {{{"since", "nand"}}, "since: 'nand' is not a time"},
      {{{"until", "2026-02-30"}}, "until: '2026-02-30' is not a time"},
      {{{"until", "2026-01-31T08:00"}}, "not a time"},
      {{{"since", "1d"}, {"until", "2d"}}, "is not before until"},
      {{{"since", "2190-01-01"}}, "is not before until"},
      {{{"group", "user"}}, "unknown parameter 'group', expected by, since or until"},
      {{{"by", std::string(201, 'a')}}, "'by' has 201 bytes, at most 200 are allowed"},
  };
  for (const auto& row : kRows) {
    const Status status = ParseUsageQuery(row.query, kNow).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find(row.part), std::string::npos) << row.part << " -> " << status;
  }
}

TEST(UsageRequest, WritesRowsWithTheirKeysAndShares) {
  const runtime::UsageQuery query = {{UsageKey::kUser, UsageKey::kKind}, kNow - hours(1), kNow};
  runtime::UsageReport report;
  report.since = query.since;
  report.until = query.until;
  const auto hour = int64_t{3'600'000'000'000};
  report.rows.push_back({{"ada", "H100"}, {3 * hour, hour, hour}, 2});
  report.rows.push_back({{"bob", "V100"}, {hour, 0, 0}, 1});
  report.total = {{}, {4 * hour, hour, hour}, 3};
  const auto json = ToJson(query, report);
  EXPECT_EQ(json["rows"][0]["user"], "ada");
  EXPECT_EQ(json["rows"][0]["kind"], "H100");
  EXPECT_EQ(json["rows"][0]["accelerator_hours"], 3.0);
  EXPECT_EQ(json["rows"][0]["lost_hours"], 1.0);
  EXPECT_EQ(json["rows"][0]["share"], 0.75);
  EXPECT_EQ(json["rows"][1]["jobs"], 1);
  EXPECT_EQ(json["total"]["accelerator_hours"], 4.0);
  EXPECT_EQ(json["total"]["share"], 1.0);
  EXPECT_FALSE(json["total"].contains("user"));
  EXPECT_EQ(json["by"].dump(), R"(["user","kind"])");
}

}  // namespace
}  // namespace longhaul::service::usage_request_test
