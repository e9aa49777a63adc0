#include "service/agent/native_stacks/native_stack_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace longhaul::service {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kText[] =
    "process 7\n"
    "thread 7 (stopped for 45 us)\n"
    "  read\n"
    "  main\n"
    "process 9\n"
    "! it has ended\n"
    "process 7\n"
    "thread 8 (stopped for 41 us)\n"
    "  poll\n"
    "! thread 10: it has ended\n"
    "  start_thre";

TEST(NativeStacks, HaveTheCallsOfTheMainThreadAndTheTextOfAll) {
  const std::map<pid_t, NativeStack> stacks = ParseNativeStacks(kText);
  ASSERT_EQ(stacks.size(), 2u);
  EXPECT_THAT(stacks.at(7).main_calls, ElementsAre("read", "main"));
  EXPECT_EQ(stacks.at(7).text,
            "thread 7 (stopped for 45 us)\n  read\n  main\n"
            "thread 8 (stopped for 41 us)\n  poll\n! thread 10: it has ended\n");
  EXPECT_THAT(stacks.at(9).main_calls, IsEmpty());
  EXPECT_EQ(stacks.at(9).text, "! it has ended\n");
}

TEST(NativeStacks, OfOtherTextsThereAreNone) {
  for (const char* text : {"", "\n\n", "process", "process 7", "process x\n", "process -7\n",
                           "process 99999999999\n", "thread 7\n  main\n"}) {
    EXPECT_THAT(ParseNativeStacks(text), IsEmpty()) << text;
  }
}

TEST(NativeStacks, HaveShortPrintableLines) {
  const auto stacks =
      ParseNativeStacks("process 7\nthread 7\n  \x1b[2J" + std::string(9000, 'x') + "\n");
  ASSERT_EQ(stacks.at(7).main_calls.size(), 1u);
  EXPECT_TRUE(stacks.at(7).main_calls[0].starts_with("\\x1b[2Jxxx"));
  EXPECT_LE(stacks.at(7).main_calls[0].size(), 210u);
}

}  // namespace
}  // namespace longhaul::service
