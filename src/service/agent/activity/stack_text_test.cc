#include "service/agent/activity/stack_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

namespace longhaul::service {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kDump[] =
    "Thread 0x00007f0a (most recent call first):\n"
    "  File \"/usr/lib/python3.11/threading.py\", line 324 in wait\n"
    "\n"
    "Current thread 0x00007f0b (most recent call first):\n"
    "  File \"/home/a b/x, line 7 in y.py\", line 12 in <module>\n"
    "  File \"train.py\", line 3 in main\n"
    "  File \"<longhaul fork server>/program.py\", line 485 in run_script\n"
    "\n"
    "Thread 0x00007f0c (most recent call first):\n"
    "  File \"/usr/lib/python3.11/threading.py\", line 1 in later\n";

TEST(PythonCalls, AreThoseOfTheCurrentThread) {
  EXPECT_THAT(PythonCalls(kDump),
              ElementsAre("<module> (a b/x, line 7 in y.py:12)", "main (train.py:3)"));
}

TEST(PythonCalls, OfOtherTextsThereAreNone) {
  for (const char* text : {"", "\n\n", "  File \"x", "  File \"x\", line", "Current thread"}) {
    EXPECT_THAT(PythonCalls(text), IsEmpty()) << text;
  }
}

TEST(SystemCallName, NamesWaitsAndNumbersTheRest) {
  EXPECT_EQ(SystemCallName(std::to_string(SYS_recvfrom) + " 0x1 0x2"), "recvfrom");
  EXPECT_EQ(SystemCallName("9999 0x1 0x2"), "system call 9999");
  EXPECT_EQ(SystemCallName("running"), "running");
  EXPECT_EQ(SystemCallName("-1 0x7ffe 0x7f"), "blocked");
  EXPECT_EQ(SystemCallName(""), "");
}

TEST(HandlesSignal, ReadsTheMaskOfTheSignalsThatAreCaught) {
  const char* status = "SigBlk:\tffffffffffffffff\nSigCgt:\t2000000000000002\n";
  EXPECT_TRUE(HandlesSignal(status, 62));
  EXPECT_TRUE(HandlesSignal(status, 2));
  EXPECT_FALSE(HandlesSignal(status, 61));
  EXPECT_FALSE(HandlesSignal(status, 0));
  EXPECT_FALSE(HandlesSignal("SigBlk:\tffffffffffffffff\n", 62));
  EXPECT_FALSE(HandlesSignal("SigCgt:\tnonsense\n", 62));
}

}  // namespace
}  // namespace longhaul::service
