#include "engines/kubernetes/protocol/watch_lines.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"

namespace longhaul::engines::kubernetes {
namespace {

std::vector<std::string> LinesOf(WatchLines& lines, const std::vector<std::string>& chunks) {
  std::vector<std::string> found;
  for (const std::string& chunk : chunks) {
    const Status status = lines.Append(chunk, [&found](PaddedText line) {
      found.emplace_back(line.text);
      return Status();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
  return found;
}

TEST(WatchLines, CutsAtLineFeedsOnly) {
  WatchLines lines;
  EXPECT_EQ(LinesOf(lines, {"{\"a\"", ":1}\n\n{}", "\n{\"b"}),
            (std::vector<std::string>{"{\"a\":1}", "{}"}));
  EXPECT_FALSE(lines.at_line_end());
  EXPECT_EQ(lines.buffered_bytes(), 3u);
  lines.Reset();
  EXPECT_TRUE(lines.at_line_end());
  EXPECT_EQ(LinesOf(lines, {"x\n"}), std::vector<std::string>{"x"});
}

TEST(WatchLines, GivesTheSameLinesForEveryCut) {
  Random random(3);
  std::string text;
  std::vector<std::string> want;
  for (int i = 0; i < 200; ++i) {
    want.push_back(std::string(1 + random.Below(300), static_cast<char>('a' + i % 26)));
    text += want.back() + "\n";
  }
  for (int round = 0; round < 50; ++round) {
    std::vector<std::string> chunks;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random.Below(round < 5 ? 3 : 2'000);
      chunks.push_back(text.substr(at, size));
      at += size;
    }
    WatchLines lines;
    ASSERT_EQ(LinesOf(lines, chunks), want) << "round " << round;
    ASSERT_TRUE(lines.at_line_end());
  }
}

TEST(WatchLines, RefusesALineOverTheLimit) {
  WatchLines lines(10);
  const auto ignore = [](PaddedText) { return Status(); };
  EXPECT_TRUE(lines.Append("0123456789\n", ignore).ok());
  EXPECT_TRUE(lines.Append("01234", ignore).ok());
  EXPECT_EQ(lines.Append("567890", ignore).code(), Code::kResourceExhausted);
  lines.Reset();
  EXPECT_EQ(lines.Append("01234567890\n", ignore).code(), Code::kResourceExhausted);
}

TEST(WatchLines, StopsAtTheFirstErrorOfTheReader) {
  WatchLines lines;
  int calls = 0;
  const Status status = lines.Append("a\nb\nc\n", [&calls](PaddedText line) {
    ++calls;
    return line.text == "b" ? Aborted("stop") : Status();
  });
  EXPECT_EQ(status.code(), Code::kAborted);
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
