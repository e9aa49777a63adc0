#include "base/temporary_folder.h"

#include <gtest/gtest.h>

#include <fstream>
#include <optional>

namespace longhaul {
namespace {

TEST(TemporaryFolder, IsOnesOwnAndGoneWithAllThatIsInIt) {
  std::optional<TemporaryFolder> one(testing::TempDir());
  const TemporaryFolder other(testing::TempDir());
  EXPECT_NE(one->path(), other.path());
  std::filesystem::create_directory(one->path() + "/inner");
  std::ofstream(one->path() + "/inner/file") << "text";
  const std::string path = one->path();
  EXPECT_TRUE(std::filesystem::is_regular_file(path + "/inner/file"));
  one.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(std::filesystem::is_directory(other.path()));
}

}  // namespace
}  // namespace longhaul
