#include "io/process/process_table.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "io/process/process.h"

namespace longhaul::io {
namespace {

std::vector<pid_t> Pids(const std::vector<ProcessRow>& rows) {
  std::vector<pid_t> pids;
  for (const ProcessRow& row : rows) pids.push_back(row.process);
  std::sort(pids.begin(), pids.end());
  return pids;
}

TEST(ProcessRow, IsReadWhateverTheNameHolds) {
  const std::string rest =
      " S 7 42 41 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 13 0 5000 1000000 200 18446744073709551615\n";
  const ProcessRow want{42, 7, 41, 13};
  for (const char* name : {"sh", "a b", ") S 1 1 1", "((", ""}) {
    EXPECT_EQ(ParseProcessRow("42 (" + std::string(name) + ")" + rest), want) << name;
  }
}

TEST(ProcessRow, SaysWhetherTheProcessCanStartOthers) {
  const std::string rest = " 7 42 41 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 13 0 5000 1000000\n";
  for (const char state : {'T', 't', 'Z', 'X'}) {
    EXPECT_TRUE(ParseProcessRow(std::string("42 (sh) ") + state + rest)->still) << state;
  }
  for (const char state : {'R', 'S', 'D', 'I'}) {
    EXPECT_FALSE(ParseProcessRow(std::string("42 (sh) ") + state + rest)->still) << state;
  }
}

TEST(ProcessRow, IsNothingForAnotherText) {
  for (const char* text : {"", "42", "42 (sh)", "42 (sh) S", "42 (sh) S 7 42 41 0 -1",
                           "x (sh) S 7 42 41 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 13 0"}) {
    EXPECT_FALSE(ParseProcessRow(text).has_value()) << text;
  }
}

//  10 (session 10) -- 11 -- 12     20 -- 21 (session 21)     30, an orphan in session 10
TEST(RowsBelow, AreDescendantsAndMembersOfTheSession) {
  const std::vector<ProcessRow> rows = {{10, 1, 10, 1},  {11, 10, 10, 4}, {12, 11, 12, 1},
                                        {20, 1, 20, 1},  {21, 20, 21, 1}, {30, 1, 10, 1},
                                        {31, 30, 31, 1}, {40, 1, 1, 100}};
  EXPECT_EQ(Pids(RowsBelow(rows, {10})), (std::vector<pid_t>{10, 11, 12, 30, 31}));
  EXPECT_EQ(Pids(RowsBelow(rows, {21})), (std::vector<pid_t>{21}));
  EXPECT_EQ(Pids(RowsBelow(rows, {20, 31})), (std::vector<pid_t>{20, 21, 31}));
  EXPECT_TRUE(RowsBelow(rows, {}).empty());
  EXPECT_TRUE(RowsBelow(rows, {99}).empty()) << "it has ended";
}

TEST(RowsBelow, EndsWhereTheTableHasACycle) {
  EXPECT_EQ(Pids(RowsBelow({{1, 2, 9, 1}, {2, 1, 9, 1}}, {1})), (std::vector<pid_t>{1, 2}));
}

TEST(ListProcesses, HasThisProcessAndItsChild) {
  ProcessOptions options;
  options.argv = {"sleep", "600"};
  options.environment = {{"PATH", "/usr/bin:/bin"}};
  const Result<Process> process = Start(options);
  ASSERT_TRUE(process.ok()) << process.status();
  const std::vector<ProcessRow> below = RowsBelow(ListProcesses(), {getpid()});
  const auto child = std::find_if(below.begin(), below.end(), [&](const ProcessRow& row) {
    return row.process == process->pid;
  });
  ASSERT_NE(child, below.end());
  EXPECT_EQ(child->parent, getpid());
  EXPECT_EQ(child->session, process->pid);
  EXPECT_EQ(child->threads, 1u);
  (void)Signal(process->pidfd, SIGKILL);
  (void)Reap(process->pidfd);
}

TEST(TasksOfMachine, AreTheFourthNumberOfTheLoad) {
  EXPECT_EQ(ParseTasksOfMachine("0.20 0.18 0.12 1/80 11206\n"), 80u);
  for (const char* text : {"", "0.20 0.18 0.12 1/80", "0.20 0.18 0.12 180 11206", "a b c d/e f"}) {
    EXPECT_FALSE(ParseTasksOfMachine(text).has_value()) << text;
  }
  EXPECT_GE(TasksOfMachine().value_or(0), 1u);
}

TEST(OwnMemory, IsThatOfAProcess) {
  EXPECT_GT(OwnMemory(getpid()), 64u << 10);
  EXPECT_EQ(OwnMemory(0), 0u);
}

}  // namespace
}  // namespace longhaul::io
