#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "base/random.h"

namespace longhaul {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Split, KeepsEmptyParts) {
  EXPECT_THAT(Split("a,b,,c", ','), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(Split("", ','), ElementsAre(""));
  EXPECT_THAT(Split(",", ','), ElementsAre("", ""));
}

TEST(Join, UndoesSplit) {
  EXPECT_EQ(Join({"a", "", "b"}, ", "), "a, , b");
  EXPECT_EQ(Join({}, ", "), "");
  EXPECT_EQ(Join({"", ""}, ","), ",");
}

TEST(Trim, TakesSpaceOffBothEnds) {
  EXPECT_EQ(Trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(Trim(" \n"), "");
  EXPECT_EQ(Trim(""), "");
}

TEST(ParseInt64, AcceptsTheWholeRange) {
  EXPECT_EQ(*ParseInt64("0"), 0);
  EXPECT_EQ(*ParseInt64("-12"), -12);
  EXPECT_EQ(*ParseInt64("9223372036854775807"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(*ParseInt64("-9223372036854775808"), std::numeric_limits<int64_t>::min());
}

TEST(ParseInt64, RefusesWhatIsNotANumberFromEndToEnd) {
  for (const char* text : {"", " ", "1 ", " 1", "+1", "1.0", "0x10", "1e3", "--1", "one"}) {
    EXPECT_EQ(ParseInt64(text).status().code(), Code::kInvalidArgument) << text;
  }
  EXPECT_EQ(ParseInt64("9223372036854775808").status().code(), Code::kOutOfRange);
}

TEST(ParseUint64, RefusesASign) {
  EXPECT_EQ(*ParseUint64("18446744073709551615"), std::numeric_limits<uint64_t>::max());
  EXPECT_FALSE(ParseUint64("-1").ok());
  EXPECT_FALSE(ParseUint64("18446744073709551616").ok());
}

TEST(ParseDouble, AcceptsFiniteNumbersOnly) {
  EXPECT_EQ(*ParseDouble("3e-4"), 3e-4);
  EXPECT_EQ(*ParseDouble("-0.5"), -0.5);
  for (const char* text : {"nan", "inf", "-infinity", "1e999", "1e-999", "", "1,5", "0x1p3"}) {
    EXPECT_FALSE(ParseDouble(text).ok()) << text;
  }
}

TEST(ParseInt64, NamesTheTextSafely) {
  EXPECT_EQ(ParseInt64("a\x1b[31m").status().message(), "'a\\x1b[31m' is not a whole number");
}

TEST(ParseDuration, AgreesWithTheTable) {
  const struct {
    const char* text;
    Duration want;
  } kRows[] = {
      {"0s", 0s},       {"1ns", 1ns},     {"15us", 15us},  {"250ms", 250ms}, {"20s", 20s},
      {"1.5s", 1500ms}, {"5min", 300s},   {"2h", 7200s},   {"3d", 72h},      {"20 s", 20s},
      {".5h", 30min},   {"0.001ms", 1us}, {"365d", 8760h},
  };
  for (const auto& row : kRows) {
    const Result<Duration> got = ParseDuration(row.text);
    ASSERT_TRUE(got.ok()) << row.text << ": " << got.status();
    EXPECT_EQ(*got, row.want) << row.text;
  }
}

TEST(ParseDuration, RefusesWhatIsNotOne) {
  for (const char* text : {"", "s", "20", "-5s", "+5s", "1.2.3s", "5 minutes", "5m", "1e3s", "s5",
                           " 5s", ".", "999999999999d"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
  EXPECT_THAT(ParseDuration("5m").status().message(), HasSubstr("'5m' is not a duration"));
}

TEST(Nearest, FindsTheWordThatWasMeant) {
  constexpr std::array<std::string_view, 4> kKnown = {"steps", "model", "learning_rate", "seed"};
  const struct {
    std::string_view word;
    std::optional<std::string_view> want;
  } kRows[] = {
      {"step", "steps"},  {"setps", "steps"}, {"lerning_rate", "learning_rate"},
      {"modle", "model"}, {"sed", "seed"},    {"colour", std::nullopt},
      {"model", "model"},
  };
  for (const auto& row : kRows) EXPECT_EQ(Nearest(row.word, kKnown), row.want) << row.word;
  EXPECT_EQ(Nearest(std::string(1'000, 's'), kKnown), std::nullopt);
}

TEST(ContainsAny, FindsAWordAnywhere) {
  EXPECT_TRUE(ContainsAny("nemo-bridge", {"titan", "bridge"}));
  EXPECT_FALSE(ContainsAny("nemo", {"titan", "bridge"}));
  EXPECT_FALSE(ContainsAny("nemo", {}));
  EXPECT_FALSE(ContainsAny("", {"titan"}));
}

TEST(Counted, HasThePlural) {
  EXPECT_EQ(Counted(1, "layer"), "1 layer");
  EXPECT_EQ(Counted(0, "layer"), "0 layers");
  EXPECT_EQ(Counted(1'024, "branch"), "1,024 branches");
  EXPECT_EQ(Counted(2, "loss"), "2 losses");
}

TEST(WithThousands, GroupsByThree) {
  EXPECT_EQ(WithThousands(0), "0");
  EXPECT_EQ(WithThousands(999), "999");
  EXPECT_EQ(WithThousands(1'000), "1,000");
  EXPECT_EQ(WithThousands(-100), "-100");
  EXPECT_EQ(WithThousands(-1'234'567), "-1,234,567");
  EXPECT_EQ(WithThousands(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(Printable, NeverLetsAControlByteThrough) {
  EXPECT_EQ(Printable("a\nb\xff"), "a\\x0ab\\xff");
  Random random(6);
  for (int i = 0; i < 1'000; ++i) {
    std::string bytes(random.Below(40), ' ');
    for (char& c : bytes) c = static_cast<char>(random.Below(256));
    for (const char c : Printable(bytes)) ASSERT_TRUE(c >= 0x20 && c < 0x7f);
  }
}

TEST(Printable, CutsAtTheLimit) {
  EXPECT_EQ(Printable("12345", 5), "12345");
  EXPECT_EQ(Printable("123456", 5), "12345...");
}

}  // namespace
}  // namespace longhaul
