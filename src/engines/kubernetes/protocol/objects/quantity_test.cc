#include "engines/kubernetes/protocol/objects/quantity.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(Quantity, ReadsEachSuffixExactly) {
  const struct {
    const char* text;
    int64_t units;
    int64_t milli;
  } kRows[] = {
      {"0", 0, 0},
      {"1", 1, 1000},
      {"+3", 3, 3000},
      {"500m", 1, 500},
      {"1500m", 2, 1500},
      {"100n", 1, 1},
      {"1u", 1, 1},
      {"2k", 2'000, 2'000'000},
      {"3M", 3'000'000, 3'000'000'000},
      {"1G", 1'000'000'000, 1'000'000'000'000},
      {"1T", 1'000'000'000'000, 1'000'000'000'000'000},
      {"1P", 1'000'000'000'000'000, 1'000'000'000'000'000'000},
      {"9E", 9'000'000'000'000'000'000, kMax},
      {"1Ki", 1024, 1'024'000},
      {"1.5Ki", 1536, 1'536'000},
      {"0.0009765625Ki", 1, 1000},  // 1/1024 of a Ki
      {"1Gi", 1 << 30, (int64_t{1} << 30) * 1000},
      {"7Ei", int64_t{7} << 60, kMax},
      {"1e3", 1000, 1'000'000},
      {"1E3", 1000, 1'000'000},
      {"12e-1", 2, 1200},
      {"1e+2", 100, 100'000},
      {".5", 1, 500},
      {"1.", 1, 1000},
      {"-1500m", -1, -1500},
      {"-0", 0, 0},
  };
  for (const auto& row : kRows) {
    const Result<Quantity> got = Quantity::Parse(row.text);
    ASSERT_TRUE(got.ok()) << row.text << ": " << got.status();
    EXPECT_EQ(got->RoundedUpUnits(), row.units) << row.text;
    EXPECT_EQ(got->RoundedUpMilliUnits(), row.milli) << row.text;
  }
}

TEST(Quantity, RefusesWhatTheGrammarDoesNotHave) {
  for (const char* text :
       {"",   "-",   "+",   ".",    "m",   "1 ",  " 1",   "1.2.3", "1e",  "1Ee", "1e+", "1e1.5",
        "1K", "1ki", "1mi", "0x10", "1,5", "--1", "1 Gi", "1GiB",  "inf", "nan", "1e3m"}) {
    EXPECT_EQ(Quantity::Parse(text).status().code(), Code::kInvalidArgument) << text;
  }
  EXPECT_FALSE(Quantity::Parse(std::string(65, '1')).ok());
}

TEST(Quantity, RoundsDigitsBelowANanoUnitAwayFromZero) {
  EXPECT_EQ(ToString(*Quantity::Parse("0.0000000001")), "1n");
  EXPECT_EQ(ToString(*Quantity::Parse("-0.0000000001")), "-1n");
  EXPECT_EQ(ToString(*Quantity::Parse("1.0000000001")), "1000000001n");
  EXPECT_EQ(ToString(*Quantity::Parse("1e-999999999999999999999")), "1n");
  EXPECT_EQ(ToString(*Quantity::Parse("0e99")), "0");
  // 0.1 Ki is 102.4; the eleventh digit of 0.00000000001 Ki lies below a nano-unit.
  EXPECT_EQ(ToString(*Quantity::Parse("0.1Ki")), "102400m");
  EXPECT_EQ(ToString(*Quantity::Parse("0.000000000001Ki")), "2n");
}

TEST(Quantity, StopsAtTheLargestMagnitude) {
  for (const char* text : {"9223372036854775807", "9223372036854775808", "8Ei", "10E", "1e400",
                           "99999999999999999999999999999999999999999999999999999999999999"}) {
    EXPECT_EQ(ToString(*Quantity::Parse(text)), "9223372036854775807") << text;
  }
  const Quantity largest = Quantity::FromUnits(kMax);
  EXPECT_EQ(largest + largest, largest);
  EXPECT_EQ(ToString(*Quantity::Parse("-1e30")), "-9223372036854775807");
}

TEST(Quantity, ComparesAcrossSuffixes) {
  EXPECT_EQ(*Quantity::Parse("1000m"), *Quantity::Parse("1"));
  EXPECT_LT(*Quantity::Parse("1G"), *Quantity::Parse("1Gi"));
  EXPECT_EQ(*Quantity::Parse("2") - *Quantity::Parse("500m"), *Quantity::Parse("1.5"));
}

TEST(Quantity, IsReadBackFromItsText) {
  Random random(7);
  for (int i = 0; i < 2'000; ++i) {
    const int64_t digits = static_cast<int64_t>(random.Next() >> (1 + random.Below(63)));
    const char* const suffix = (const char*[]){"n", "u", "m", "", "Ki", "Mi"}[random.Below(6)];
    const Quantity first = *Quantity::Parse(std::to_string(digits) + suffix);
    ASSERT_EQ(*Quantity::Parse(ToString(first)), first) << digits << suffix;
  }
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
