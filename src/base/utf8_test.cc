#include "base/utf8.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace longhaul {
namespace {

TEST(IsUtf8, KnowsWhatIsWellFormed) {
  for (const char* good : {"", "abc", "\u00fc", "\u20ac", "\U0001F600", "\xed\x9f\xbf"}) {
    EXPECT_TRUE(IsUtf8(good)) << good;
  }
  for (const char* bad : {"\x80", "\xc1\xbf", "\xc3", "\xe0\x9f\xbf", "\xed\xa0\x80",
                          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82"}) {
    EXPECT_FALSE(IsUtf8(bad)) << testing::PrintToString(bad);
  }
}

TEST(ToValidUtf8, KeepsWhatIsTextAndReplacesTheRest) {
  EXPECT_EQ(ToValidUtf8(""), "");
  EXPECT_EQ(ToValidUtf8("plain"), "plain");
  EXPECT_EQ(ToValidUtf8("caf\u00e9 \xFF!"), "caf\u00e9 \uFFFD!");
  EXPECT_EQ(ToValidUtf8("cut \xE2\x82"), "cut \uFFFD\uFFFD");
  EXPECT_EQ(ToValidUtf8("\xC3\u20ac"), "\uFFFD\u20ac");
  EXPECT_EQ(ToValidUtf8(std::string_view("a\0b", 3)), std::string_view("a\0b", 3));
}

TEST(ToValidUtf8, GivesValidTextForAnyBytesAndLeavesItAtThat) {
  Random random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random.Below(24), '\0');
    for (char& c : bytes)
      c = static_cast<char>(random.Below(4) > 0 ? 0x80 + random.Below(128) : 'x');
    const std::string valid = ToValidUtf8(bytes);
    ASSERT_TRUE(IsUtf8(valid)) << testing::PrintToString(bytes);
    ASSERT_EQ(ToValidUtf8(valid), valid) << testing::PrintToString(bytes);
    ASSERT_EQ(valid == bytes, IsUtf8(bytes)) << testing::PrintToString(bytes);
  }
}

}  // namespace
}  // namespace longhaul
