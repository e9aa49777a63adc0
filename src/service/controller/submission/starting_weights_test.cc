#include "service/controller/submission/starting_weights.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/temporary_folder.h"
#include "io/files/file.h"

namespace longhaul::service {
namespace {

// from.json is small, and names the weights that a run began with.
TEST(ReadStart, RefusesEveryFlippedBitAndEveryCut) {
  const TemporaryFolder folder(testing::TempDir());
  StartingPoint start;
  start.config = {{"folder", "/runs/a/checkpoints"}, {"step", 30}, {"attempt", 2}};
  ASSERT_TRUE(WriteStart(start, folder.path()).ok());
  const std::string path = folder.path() + "/from.json";
  const std::string whole = *io::ReadText(path, 1 << 16);
  EXPECT_EQ(*ReadStart(folder.path()), "/runs/a/checkpoints/step-000000030.e2");
  const auto read = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    const Result<std::string> text = ReadStart(folder.path());
    return !text.ok() || *text == "/runs/a/checkpoints/step-000000030.e2";
  };
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    ASSERT_TRUE(read(flipped)) << "bit " << bit;
  }
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    ASSERT_TRUE(read(whole.substr(0, bytes))) << bytes << " bytes";
  }
  EXPECT_TRUE(read(R"({"folder":"/runs/a/checkpoints","step":30,"attempt":2})")) << "an older file";
}

}  // namespace
}  // namespace longhaul::service
