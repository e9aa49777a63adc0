#include "planner/known_stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "planner/case.h"
#include "planner/framework.h"

namespace longhaul::planner {
namespace {

using testing::HasSubstr;

TEST(KnownStacks, AreSortedAndSomethingIsKnownOfEach) {
  std::string_view before;
  for (const KnownStack& stack : KnownStacks()) {
    EXPECT_LT(before, stack.name);
    before = stack.name;
    EXPECT_TRUE(IsKnownFramework(stack.name)) << stack.name;
    EXPECT_FALSE(stack.what.empty() || stack.fitted.empty()) << stack.name;
  }
}

// What a case takes as the stack's settings where it says nothing is what the name stands for.
TEST(KnownStacks, HaveTheSettingsThatACaseOfTheStackGets) {
  for (const KnownStack& stack : KnownStacks()) {
    const auto named = ParseStackName(stack.name);
    ASSERT_TRUE(named.ok()) << named.status();
    Case parsed;
    const Status status = ParseCase(R"({"case": "a", "model": {"layers": 32, "hidden": 4096,
        "ffn_hidden": 14336, "heads": 32, "kv_heads": 8, "vocabulary": 128256,
        "sequence_length": 8192}, "cluster": {"gpu": "h100-sxm", "gpus": 64},
        "layout": {"tensor": 2, "pipeline": 1}, "batch": {"global": 128},
        "precision": "bf16", "software": {"framework": ")" +
                                        std::string(stack.name) + R"("}})",
                                    parsed);
    ASSERT_EQ(status, Status()) << stack.name;
    EXPECT_EQ(parsed.question.training.software, *named) << stack.name;
  }
}

TEST(ParseStackName, TakesAReleaseAndNamesTheNearest) {
  const auto bridge = ParseStackName("megatron-bridge:26.06");
  ASSERT_TRUE(bridge.ok()) << bridge.status();
  EXPECT_EQ(bridge->framework, "megatron-bridge");
  EXPECT_EQ(bridge->release, "26.06");
  EXPECT_EQ(bridge->gradient_bytes, 2u);
  EXPECT_FALSE(ParseStackName("megatron-lm:v2.5")->flash_attention);
  EXPECT_THAT(ParseStackName("hai-lm").status().message(), HasSubstr("did you mean 'hai-llm'"));
  EXPECT_THAT(ParseStackName("nemo:").status().message(), HasSubstr("release"));
}

}  // namespace
}  // namespace longhaul::planner
