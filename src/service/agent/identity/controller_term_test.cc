#include "service/agent/identity/controller_term.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace longhaul::service {
namespace {

class ControllerTermTest : public testing::Test {
 protected:
  ControllerTermTest() {
    std::string pattern = testing::TempDir() + "/controller_term_XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~ControllerTermTest() override { std::filesystem::remove_all(directory_); }
  std::string path() const { return directory_ + "/controller-term"; }

 private:
  std::string directory_;
};

TEST_F(ControllerTermTest, RefusesALowerTermThanTheHighest) {
  auto term = ControllerTerm::Open(path());
  ASSERT_TRUE(term.ok()) << term.status();
  EXPECT_TRUE(term->Accept(3).ok());
  EXPECT_TRUE(term->Accept(3).ok());
  EXPECT_TRUE(term->Accept(5).ok());
  EXPECT_EQ(term->Accept(4).code(), Code::kFailedPrecondition);
  EXPECT_EQ(term->Accept(0).code(), Code::kFailedPrecondition);
  EXPECT_EQ(term->highest(), 5u);
}

TEST_F(ControllerTermTest, IsKeptOverARestart) {
  ASSERT_TRUE(ControllerTerm::Open(path())->Accept(7).ok());
  auto next = ControllerTerm::Open(path());
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->Accept(6).code(), Code::kFailedPrecondition);
}

// As for an agent of a controller that nobody stands by for.
TEST_F(ControllerTermTest, MakesNoFileForTheTermZero) {
  EXPECT_TRUE(ControllerTerm::Open(path())->Accept(0).ok());
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(ControllerTermTest, RefusesADamagedFile) {
  std::ofstream(path()) << "seven\n";
  EXPECT_EQ(ControllerTerm::Open(path()).status().code(), Code::kDataLoss);
}

// A term that is not in the file could be forgotten, and then a lower one accepted.
TEST_F(ControllerTermTest, DoesNotFollowATermThatItCannotKeep) {
  auto term = ControllerTerm::Open(path() + "/missing/folder");
  ASSERT_TRUE(term.ok()) << term.status();
  EXPECT_FALSE(term->Accept(1).ok());
  EXPECT_EQ(term->highest(), 0u);
}

}  // namespace
}  // namespace longhaul::service
