#include "corpus/token_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "io/files/file.h"

namespace longhaul::corpus {
namespace {

namespace fs = std::filesystem;

std::string TestPath(const std::string& name) { return testing::TempDir() + "token_file_" + name; }

std::vector<uint16_t> Counting(size_t count) {
  std::vector<uint16_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), uint16_t{0});
  return tokens;
}

void Write(const std::string& path, std::span<const uint16_t> tokens, uint32_t vocabulary = 257) {
  auto writer = TokenWriter::Create(path, vocabulary);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append(tokens).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
}

TEST(TokenFile, ReadsBackWhatWasWritten) {
  const std::string path = TestPath("back");
  const auto tokens = Counting(257);
  Write(path, tokens);
  const auto file = TokenFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(std::vector<uint16_t>(file->tokens().begin(), file->tokens().end()), tokens);
  EXPECT_FALSE(fs::exists(path + ".tmp"));
}

TEST(TokenFile, HoldsNoTokensToo) {
  Write(TestPath("none"), {});
  const auto file = TokenFile::Open(TestPath("none"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->tokens().empty());
}

TEST(TokenFile, RefusesEveryFlippedBitAndEveryCut) {
  const std::string path = TestPath("damaged");
  Write(path, Counting(5));
  const auto good = io::PosixFileSystem().ReadAll(path, 1000);
  ASSERT_TRUE(good.ok());
  ASSERT_TRUE(ParseTokens(*good).ok());
  for (size_t bit = 0; bit < good->size() * 8; ++bit) {
    const size_t byte = bit / 8;
    if (byte >= 32 && byte < kTokenHeaderBytes) continue;  // says nothing yet
    if (byte >= 12 && byte < 16) continue;  // a larger vocabulary is no contradiction
    auto bad = *good;
    bad[byte] ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(ParseTokens(bad).status().code(), Code::kDataLoss) << "bit " << bit;
  }
  for (size_t size = 0; size < good->size(); ++size) {
    EXPECT_FALSE(ParseTokens(std::span(*good).first(size)).ok()) << size << " bytes";
  }
}

TEST(TokenFile, RefusesATokenOutsideTheVocabulary) {
  Write(TestPath("vocabulary"), Counting(11), 10);
  EXPECT_EQ(TokenFile::Open(TestPath("vocabulary")).status().code(), Code::kDataLoss);
}

TEST(TokenFile, NamesAFileThatIsNotThere) {
  const auto file = TokenFile::Open("/no/such.tokens");
  EXPECT_EQ(file.status().code(), Code::kNotFound);
  EXPECT_NE(file.status().message().find("/no/such.tokens"), std::string::npos);
}

TEST(TokenWriter, MovesItsTail) {
  auto from = TokenWriter::Create(TestPath("from"), 257);
  auto to = TokenWriter::Create(TestPath("to"), 257);
  ASSERT_TRUE(from.ok() && to.ok());
  ASSERT_TRUE((*from)->Append(Counting(10)).ok());
  ASSERT_TRUE((*from)->MoveTail(3, **to).ok());
  EXPECT_EQ((*from)->count(), 7u);
  ASSERT_TRUE((*from)->Finish().ok() && (*to)->Finish().ok());
  const auto moved = TokenFile::Open(TestPath("to"));
  ASSERT_TRUE(moved.ok());
  EXPECT_EQ(moved->tokens()[0], 7);
  EXPECT_EQ(TokenFile::Open(TestPath("from"))->tokens().size(), 7u);
}

TEST(TokenWriter, LeavesNothingWhenItIsNotFinished) {
  const std::string path = TestPath("unfinished");
  {
    auto writer = TokenWriter::Create(path, 257);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Append(Counting(3)).ok());
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::exists(path + ".tmp"));
}

}  // namespace
}  // namespace longhaul::corpus
