#include "corpus/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace longhaul::corpus {
namespace {

TEST(MatchGlob, AgreesWithTheTable) {
  const struct {
    const char* pattern;
    const char* path;
    bool want;
  } kRows[] = {
      {"/usr/include/**/*.h", "/usr/include/a.h", true},
      {"/usr/include/**/*.h", "/usr/include/x/y/a.h", true},
      {"/usr/include/**/*.h", "/usr/include/a.hpp", false},
      {"/usr/include/**/*.h", "/usr/lib/a.h", false},
      {"/usr/include/**", "/usr/include/c++/12/vector", true},
      {"/usr/include/**", "/usr/include", true},
      {"**/testdata/**", "src/corpus/testdata/x", true},
      {"**/testdata/**", "/src/testdata/x/y", true},
      {"**/*.h", "/a.h", true},
      {"*.h", "/a.h", false},
      {"*.h", "a/b.h", false},
      {"a?c", "abc", true},
      {"a?c", "a/c", false},
      {"a*", "a", true},
      {"*a*b*", "xxaxxbxx", true},
      {"*a*b", "ab/ab", false},
      {"[a-c]x", "bx", true},
      {"[a-c]x", "dx", false},
      {"[!a-c]x", "dx", true},
      {"[]]", "]", true},
      {"[a-]", "-", true},
      {"[ab", "[ab", true},
      {"\\*", "*", true},
      {"\\*", "x", false},
      {"[\xf0-\xff]", "\xf5", true},
      {"/a//b", "/a/b", true},
      {"", "", true},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(MatchGlob(row.pattern, row.path), row.want) << row.pattern << " on " << row.path;
  }
}

TEST(MatchGlob, TakesPolynomialTimeOnHostilePatterns) {
  std::string stars;
  std::string components;
  for (int i = 0; i < 200; ++i) {
    stars += "*a";
    components += "**/a*/";
  }
  const std::string name(4'000, 'a');
  EXPECT_FALSE(MatchGlob(stars + "b", name));
  std::string path;
  for (int i = 0; i < 400; ++i) path += "a/";
  EXPECT_FALSE(MatchGlob(components + "b", path));
}

TEST(Components, FoldsRepeatedDoubleStarsAndEmptyParts) {
  EXPECT_EQ(Components("/a//**/**/b/"), (std::vector<std::string_view>{"a", "**", "b"}));
}

}  // namespace
}  // namespace longhaul::corpus
