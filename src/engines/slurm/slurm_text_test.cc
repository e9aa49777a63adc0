#include "engines/slurm/slurm_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::engines::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SlurmText, ASubmittedJobHasANumber) {
  EXPECT_EQ(*ParseSubmitted("17\n"), "17");
  EXPECT_EQ(*ParseSubmitted("17;cluster\n"), "17");
  for (const char* text : {"", "\n", "Submitted batch job 17", "-1", "17 18"}) {
    EXPECT_FALSE(ParseSubmitted(text).ok()) << text;
  }
}

TEST(SlurmText, AJobsLineTellsItsStateAndNodes) {
  const auto running = ParseJobLine("17|RUNNING|n[1-2]|None\n");
  ASSERT_TRUE(running.ok()) << running.status();
  EXPECT_EQ(running->id, "17");
  EXPECT_TRUE(running->runs());
  EXPECT_TRUE(running->lives());
  EXPECT_THAT(running->nodes, ElementsAre("n1", "n2"));
  const auto waiting = ParseJobLine("18|PENDING||(Resources)");
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  EXPECT_TRUE(waiting->lives());
  EXPECT_FALSE(waiting->runs());
  EXPECT_THAT(waiting->nodes, IsEmpty());
  EXPECT_EQ(waiting->reason, "(Resources)");
  for (const char* state : {"COMPLETED", "CANCELLED", "NODE_FAIL", "TIMEOUT", "PREEMPTED",
                            "COMPLETING", "OUT_OF_MEMORY"}) {
    EXPECT_FALSE(ParseJobLine("18|" + std::string(state) + "||None")->lives()) << state;
  }
}

TEST(SlurmText, RefusesOtherLines) {
  for (const char* line : {"", "17", "17|RUNNING|n1", "x|RUNNING|n1|None", "17|running|n1|None",
                           "17|RUNNING|n[1|None", "17||n1|None"}) {
    EXPECT_FALSE(ParseJobLine(line).ok()) << line;
  }
}

TEST(SlurmText, ANodesNameBecomesAnAgents) {
  EXPECT_EQ(AgentNameOf("gpu-01"), "gpu-01");
  EXPECT_EQ(AgentNameOf("Rack_1.Node2"), "rack-1-node2");
  EXPECT_EQ(AgentNameOf(std::string(100, 'n')).size(), 63u);
}

}  // namespace
}  // namespace longhaul::engines::slurm
