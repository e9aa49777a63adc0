#include "corpus/corpus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "corpus/token_file.h"
#include "corpus/walk.h"

namespace longhaul::corpus {
namespace {

namespace fs = std::filesystem;

class Corpus : public testing::Test {
 protected:
  Corpus() {
    std::string pattern = testing::TempDir() + "corpus_XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~Corpus() override { fs::remove_all(root_); }

  void Write(const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(root_ + "/" + name).parent_path());
    std::ofstream(root_ + "/" + name, std::ios::binary) << text;
  }
  spec::DataSpec Data(const std::string& glob) {
    spec::DataSpec data;
    data.include = {root_ + "/" + glob};
    data.held_out = 0;
    return data;
  }
  Result<CorpusFacts> Prepare(const spec::DataSpec& data, uint32_t sequence = 2) {
    return PrepareCorpus(data, sequence, root_ + "/out");
  }
  // Bytes as they are, the separator as '|'.
  std::string Text(const char* file) {
    const auto tokens = TokenFile::Open(root_ + "/out/" + file);
    EXPECT_TRUE(tokens.ok()) << tokens.status();
    std::string text;
    if (!tokens.ok()) return text;
    for (const uint16_t token : tokens->tokens()) {
      text += token == kSeparator ? '|' : static_cast<char>(token);
    }
    return text;
  }

  std::string root_;
};

TEST_F(Corpus, JoinsSortedFilesWithSeparators) {
  Write("text/b.h", "second");
  Write("text/a/z.h", "first");
  Write("text/c.txt", "not this one");
  Write("text/empty.h", "");
  Write("text/.hidden/x.h", "nor this");
  const auto facts = Prepare(Data("text/**/*.h"));
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(Text(kTrainFile), "first|second|");
  EXPECT_EQ(facts->train_tokens, 13u);
  EXPECT_EQ(facts->train_samples, 6u);
  EXPECT_EQ(facts->files, 3u);
  EXPECT_EQ(facts->held_out_tokens, 0u);
}

TEST_F(Corpus, GivesTheSameBytesTwice) {
  for (int i = 0; i < 50; ++i) Write("text/" + std::to_string(i), std::string(30, 'a'));
  spec::DataSpec data = Data("text/*");
  data.held_out = 0.2;
  const auto first = Prepare(data);
  const auto second = Prepare(data);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(first->fingerprint.size(), 16u);
}

TEST_F(Corpus, HoldsOutAShareOfTheFilesAndLosesNone) {
  for (int i = 0; i < 200; ++i) Write("text/" + std::to_string(i), std::to_string(1000 + i));
  spec::DataSpec data = Data("text/*");
  data.held_out = 0.25;
  ASSERT_TRUE(Prepare(data).ok());
  const std::string held_out = Text(kHeldOutFile);
  const std::string train = Text(kTrainFile);
  EXPECT_EQ(held_out.size() + train.size(), 200u * 5);
  EXPECT_NEAR(static_cast<double>(held_out.size()) / 5, 50, 20);
  for (int i = 0; i < 200; ++i) {
    const std::string piece = std::to_string(1000 + i) + "|";
    const bool trained = train.find(piece) != std::string::npos;
    EXPECT_NE(trained, held_out.find(piece) != std::string::npos) << i;
  }
}

TEST_F(Corpus, HoldsOutTheEndOfASingleFile) {
  Write("one", std::string(90, 'a') + std::string(9, 'b'));
  spec::DataSpec data = Data("one");
  data.held_out = 0.1;
  ASSERT_TRUE(Prepare(data).ok());
  EXPECT_EQ(Text(kTrainFile), std::string(90, 'a'));
  EXPECT_EQ(Text(kHeldOutFile), "bbbbbbbbb|");
}

TEST_F(Corpus, ReadsNoMoreThanItsLimit) {
  Write("text/a", "12345");
  Write("text/b", "67890");
  // A file with a size of 1 TiB and no blocks: reading it to the end would take hours.
  Write("text/c", "c");
  ASSERT_EQ(truncate((root_ + "/text/c").c_str(), off_t{1} << 40), 0);
  spec::DataSpec data = Data("text/*");
  data.max_bytes = 8;
  ASSERT_TRUE(Prepare(data).ok());
  EXPECT_EQ(Text(kTrainFile), "12345|678|");
  data.max_bytes = 12;
  ASSERT_TRUE(Prepare(data).ok());
  EXPECT_EQ(Text(kTrainFile), std::string("12345|67890|c\0|", 15));
}

TEST_F(Corpus, IsNotHeldByLoopsPipesOrLostFiles) {
  Write("text/a", "good text");
  fs::create_directory_symlink(root_ + "/text", root_ + "/text/loop");
  fs::create_symlink("/no/such/file", root_ + "/text/dangling");
  fs::create_symlink(root_ + "/text/a", root_ + "/text/b");
  ASSERT_EQ(mkfifo((root_ + "/text/pipe").c_str(), 0600), 0);
  ASSERT_TRUE(Prepare(Data("text/**")).ok());
  EXPECT_EQ(Text(kTrainFile), "good text|good text|");
}

TEST_F(Corpus, SkipsAndCountsWhatItCannotRead) {
  Write("text/a", "good text");
  // A regular file whose first byte nobody can read, root included.
  fs::create_symlink("/proc/self/mem", root_ + "/text/b");
  const auto facts = Prepare(Data("text/*"));
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->skipped, 1u);
  ASSERT_EQ(facts->warnings.size(), 1u);
  EXPECT_NE(facts->warnings[0].find("text/b"), std::string::npos);
}

TEST_F(Corpus, SaysWhichGlobsMatchNothing) {
  Write("text/a.h", "text");
  spec::DataSpec data = Data("text/*.h");
  data.exclude = {"**/a.h"};
  const auto facts = Prepare(data);
  EXPECT_EQ(facts.status().code(), Code::kNotFound);
  EXPECT_NE(facts.status().message().find(data.include[0]), std::string::npos);
  EXPECT_NE(facts.status().message().find("**/a.h"), std::string::npos);
}

TEST_F(Corpus, RefusesTextShorterThanASample) {
  Write("short", "abc");
  EXPECT_EQ(Prepare(Data("short"), 4).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(Prepare(Data("short"), 3).ok());
  spec::DataSpec data = Data("short");
  data.held_out = 0.5;
  EXPECT_EQ(Prepare(data, 3).status().code(), Code::kInvalidArgument);
}

TEST_F(Corpus, DoesNotVisitAPlaceInThePatternTwice) {
  std::string path = "text";
  for (int depth = 0; depth < 24; ++depth) path += "/a";
  Write(path + "/x", "deep");
  Found found;
  ASSERT_TRUE(FindFiles(root_ + "/**/a/**/a/**/a/**/a/**/a/**/x", found).ok());
  EXPECT_EQ(found.paths.size(), 1u);
}

}  // namespace
}  // namespace longhaul::corpus
