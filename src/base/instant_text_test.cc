#include "base/instant_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using testing::HasSubstr;

TEST(ParseInstant, AgreesWithTheTable) {
  const struct {
    const char* text;
    const char* want;
  } kRows[] = {
      {"1970-01-01", "1970-01-01T00:00:00.000Z"},
      {"2026-01-31", "2026-01-31T00:00:00.000Z"},
      {"2028-02-29", "2028-02-29T00:00:00.000Z"},
      {"2026-01-31T08:05Z", "2026-01-31T08:05:00.000Z"},
      {"2026-01-31T08:05:09Z", "2026-01-31T08:05:09.000Z"},
      {"2026-01-31T23:59:59.25Z", "2026-01-31T23:59:59.250Z"},
      {"2200-12-31", "2200-12-31T00:00:00.000Z"},
  };
  for (const auto& row : kRows) {
    const Result<Instant> got = ParseInstant(row.text);
    ASSERT_TRUE(got.ok()) << row.text << ": " << got.status();
    EXPECT_EQ(ToString(*got), row.want) << row.text;
  }
  EXPECT_EQ(*ParseInstant("1970-01-01T00:00:00.000000001Z"), InstantFromNanoseconds(1));
}

TEST(ParseInstant, RefusesWhatIsNotOne) {
  for (const char* text : {"",
                           "2026",
                           "2026-1-31",
                           "2026-01-32",
                           "2026-02-29",
                           "2026-13-01",
                           "1969-12-31",
                           "2201-01-01",
                           "2026-01-31T08Z",
                           "2026-01-31T08:00",
                           "2026-01-31T24:00Z",
                           "2026-01-31T08:60Z",
                           "2026-01-31T08:00:60Z",
                           "2026-01-31T08:00:00.Z",
                           "2026-01-31T08:00:00.1234567890Z",
                           "2026-01-31 08:00Z",
                           "2026-01-31T08:00+01:00",
                           " 2026-01-31",
                           "2026-01-31T08:00ZZ",
                           "-026-01-31"}) {
    EXPECT_FALSE(ParseInstant(text).ok()) << text;
  }
  EXPECT_THAT(ParseInstant("soon").status().message(), HasSubstr("'soon' is not a time in UTC"));
}

}  // namespace
}  // namespace longhaul
