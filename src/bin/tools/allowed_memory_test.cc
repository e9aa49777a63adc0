#include "bin/tools/allowed_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"

namespace longhaul::bin {
namespace {

class AllowedMemoryTest : public testing::Test {
 protected:
  void Limit(const std::string& group, const std::string& text,
             const std::string& file = "/memory.max") {
    std::filesystem::create_directories(root_ + group);
    std::ofstream(root_ + group + file) << text;
  }

  const TemporaryFolder folder_{testing::TempDir()};
  const std::string& root_ = folder_.path();
};

TEST_F(AllowedMemoryTest, IsTheLeastOfItsGroupsLimits) {
  Limit("/pods", "4096\n");
  Limit("/pods/one", "max\n");
  Limit("/pods/one/shell", "9000\n");
  EXPECT_EQ(LeastLimit(100'000, "0::/pods/one/shell\n", root_), 4096u);
  EXPECT_EQ(LeastLimit(100'000, "1:cpu:/\n0::/pods/one/shell\n", root_), 4096u);
  EXPECT_EQ(LeastLimit(100, "0::/pods/one/shell\n", root_), 100u);
  EXPECT_EQ(LeastLimit(100'000, "0::/others\n", root_), 100'000u);
}

// A container sees its own group as the root.
TEST_F(AllowedMemoryTest, HoldsForAContainersRoot) {
  Limit("", "5000\n");
  EXPECT_EQ(LeastLimit(100'000, "0::/\n", root_), 5000u);
}

TEST_F(AllowedMemoryTest, HoldsForTheFirstVersionsGroups) {
  Limit("/memory/job", "7000\n", "/memory.limit_in_bytes");
  EXPECT_EQ(LeastLimit(100'000, "8:pids:/\n4:memory:/job/two\n0::/\n", root_), 7000u);
}

TEST_F(AllowedMemoryTest, WhatCantBeReadLimitsNothing) {
  Limit("/odd", "-7 bananas\n");
  for (const char* groups : {"", "0::", "12:memory:/odd\n", "0::/odd", "garbage\n0:"}) {
    EXPECT_EQ(LeastLimit(100'000, groups, root_), 100'000u) << groups;
  }
}

TEST(AllowedMemory, IsSomethingOnThisMachine) { EXPECT_GT(AllowedMemory(), 1u << 20); }

}  // namespace
}  // namespace longhaul::bin
