#include "engines/slurm/run_comment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::engines::slurm {
namespace {

using ::testing::ElementsAre;

TEST(RunComment, IsReadBackFromSqueue) {
  const std::string comment = RunComment("part-2", "/home/u/a run|x");
  const auto job = ParseRunJob("17|RUNNING|n[1-2]|None|2|" + comment);
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->now.id, "17");
  EXPECT_THAT(job->now.nodes, ElementsAre("n1", "n2"));
  EXPECT_EQ(job->nodes, 2u);
  EXPECT_EQ(job->role, "part-2");
  EXPECT_EQ(job->run_directory, "/home/u/a run|x");
  const auto waits = ParseRunJob("18|PENDING||Resources|4|longhaul growth /r");
  ASSERT_TRUE(waits.has_value());
  EXPECT_EQ(waits->now.reason, "Resources");
  EXPECT_EQ(waits->nodes, 4u);
  EXPECT_EQ(ParseRunJob("18|PENDING||Resources|1.50K|longhaul first /r")->nodes, 0u) << "unknown";
  EXPECT_TRUE(ParseRunJob("18|COMPLETING|n1|None|1|longhaul first /r").has_value());
}

TEST(RunComment, IsNotReadFromOtherJobs) {
  for (const char* line :
       {"", "JOBID|STATE|NODELIST|REASON|NODES|COMMENT", "17|RUNNING|n1|None|1|",
        "17|RUNNING|n1|None|1|(null)", "17|RUNNING|n1|None|1|longhaul",
        "17|RUNNING|n1|None|1|longhaul first", "17|RUNNING|n1|None|1|longhaul first ",
        "17|RUNNING|n1|None|1|longhaul First /r", "17|RUNNING|n1|None|1|xlonghaul first /r",
        "17|RUNNING|n1|None|longhaul first /r", "17_3|RUNNING|n1|None|1|longhaul first /r",
        "17|COMPLETED|n1|None|1|longhaul first /r", "17|CANCELLED|n1|None|1|longhaul first /r"}) {
    EXPECT_FALSE(ParseRunJob(line).has_value()) << line;
  }
}

}  // namespace
}  // namespace longhaul::engines::slurm
