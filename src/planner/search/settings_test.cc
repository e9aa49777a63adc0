#include "planner/search/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/search/random_job_testing.h"
#include "planner/search/search.h"
#include "spec/device_cluster/device_cluster.h"

namespace longhaul::planner::search {
namespace {

using testing::HasSubstr;

TEST(ParseFixed, TakesLongAndShortNames) {
  Fixed fixed;
  ASSERT_EQ(
      ParseFixed("tp=8, pipeline=4,recompute=layer_norm+mlp,order=data-tensor-context-pipeline,"
                 "layers=3+4+1",
                 fixed),
      Status());
  EXPECT_EQ(fixed.tensor, 8u);
  EXPECT_EQ(fixed.pipeline, 4u);
  EXPECT_TRUE(fixed.recompute->modules.mlp);
  EXPECT_FALSE(fixed.recompute->modules.moe);
  EXPECT_EQ((*fixed.order)[0], spec::Dimension::kData);
  EXPECT_EQ(fixed.layers_per_stage, (std::vector<uint32_t>{3, 4, 1}));
}

TEST(ParseFixed, NamesWhatIsWrong) {
  const struct {
    const char* text;
    const char* want;
  } kRows[] = {
      {"tensr=8", "did you mean 'tensor'"},
      {"tensor", "is not KEY=VALUE"},
      {"tensor=0", "tensor: '0' is not a whole number from 1"},
      {"zero=4", "from 0 to 3"},
      {"recompute=mpl", "none of core_attention"},
      {"order=tensor-tensor-data-pipeline", "each of tensor"},
      {"schedule=2f2b", "1f1b"},
  };
  for (const auto& row : kRows) {
    Fixed fixed;
    EXPECT_THAT(ParseFixed(row.text, fixed).message(), HasSubstr(row.want)) << row.text;
  }
}

// What is printed can be handed back: the search then finds the same layout, or a better one that
// differs in what is left out because it is 1.
TEST(LayoutText, IsReadBackToTheSameLayout) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    Job job = RandomJob(seed);
    const Outcome outcome = Search(job, EvaluatorOracle(job));
    for (const Candidate& candidate : outcome.best) {
      job.fixed = {};
      ASSERT_EQ(ParseFixed(LayoutText(candidate.training), job.fixed), Status());
      const Outcome again = Search(job, EvaluatorOracle(job));
      ASSERT_FALSE(again.best.empty()) << LayoutText(candidate.training);
      const Candidate& found = again.best[0];
      if (found.step_s < candidate.step_s) continue;
      EXPECT_EQ(LayoutText(found.training), LayoutText(candidate.training));
      ++compared;
    }
  }
  EXPECT_GT(compared, 10);
}

Question SmallQuestion() {
  Question question;
  question.model = RandomJob(1).model;
  question.model.experts.reset();
  question.model.heads = question.model.kv_heads = 8;
  question.model.hidden = 1024;
  question.model.head_dim = 128;
  question.model.ffn_hidden = 4096;
  question.cluster = *spec::ParseClusterName("h100-sxm:16");
  question.training.layout.data = 16;
  question.training.batch = {64, 1};
  return question;
}

TEST(Change, LetsDataFollow) {
  Question question = SmallQuestion();
  ASSERT_EQ(Change("tensor=4", question), Status());
  EXPECT_EQ(question.training.layout.data, 4u);
  ASSERT_EQ(Change("devices=32", question), Status());
  EXPECT_EQ(question.training.layout.data, 8u);
  ASSERT_EQ(Change("network.gb_per_s=100", question), Status());
  EXPECT_EQ(question.cluster.network.per_device.count(), 100e9);
}

TEST(Change, RefusesWhatCannotRun) {
  Question question = SmallQuestion();
  EXPECT_THAT(Change("tensor=3", question).message(), HasSubstr("tensor 3"));
  EXPECT_THAT(Change("netwrk=3", question).message(), HasSubstr("no layout key"));
}

}  // namespace
}  // namespace longhaul::planner::search
