#include "engines/slurm/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace longhaul::engines::slurm {
namespace {

using ::testing::HasSubstr;

TEST(HostList, StandsForEachNameInOrder) {
  const std::pair<const char*, std::vector<std::string>> kRows[] = {
      {"n1", {"n1"}},
      {"n[1-3]", {"n1", "n2", "n3"}},
      {"gpu[01-03,7],login", {"gpu01", "gpu02", "gpu03", "gpu7", "login"}},
      {"gpu[098-101]", {"gpu098", "gpu099", "gpu100", "gpu101"}},
      {"r[1-2]n[1-2].x", {"r1n1.x", "r1n2.x", "r2n1.x", "r2n2.x"}},
      {"n[5]", {"n5"}}};
  for (const auto& [text, want] : kRows) {
    const auto names = ExpandHostList(text);
    ASSERT_TRUE(names.ok()) << names.status();
    EXPECT_EQ(*names, want) << text;
  }
}

TEST(HostList, RefusesWhatIsNone) {
  const std::pair<const char*, const char*> kRows[] = {{"", "empty"},
                                                       {"n1,", "empty"},
                                                       {"n[1", "not closed"},
                                                       {"n1]", "do not match"},
                                                       {"n[[1]]", "do not match"},
                                                       {"n[]", "missing"},
                                                       {"n[1-]", "missing"},
                                                       {"n[a]", "numbers and ranges"},
                                                       {"n[3-1]", "before it begins"},
                                                       {"n[1234567890]", "missing"},
                                                       {"n 1", "no host name"},
                                                       {"n1;rm", "no host name"},
                                                       {"../n1", "no host name"}};
  for (const auto& [text, reason] : kRows) {
    const auto names = ExpandHostList(text);
    ASSERT_FALSE(names.ok()) << text;
    EXPECT_THAT(names.status().message(), HasSubstr(reason)) << text;
  }
}

TEST(HostList, IsBounded) {
  for (const char* text : {"n[1-65537]", "n[1-40000],m[1-40000]", "n[1-300]m[1-300]",
                           "n[1-999999999]", "n[1-60000,1-60000]"}) {
    EXPECT_EQ(ExpandHostList(text).status().code(), Code::kResourceExhausted) << text;
  }
  EXPECT_EQ(ExpandHostList("n[1-65536]")->size(), kMaxHosts);
}

}  // namespace
}  // namespace longhaul::engines::slurm
