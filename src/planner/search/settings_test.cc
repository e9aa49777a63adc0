#include "planner/search/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/search/plan.h"
#include "planner/search/random_job_testing.h"
#include "planner/search/search.h"
#include "spec/cluster/device_cluster.h"
#include "spec/model/model_reader.h"

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
    PlanRequest job = RandomJob(seed);
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

// What `plan deepseek-v3 h800-sxm:2048 --framework all` is asked of the layout that DeepSeek
// published (arXiv 2412.19437: 2.664M H800 hours for 14.8T tokens, 54.2 days on 2,048), with the
// stack that is assumed without --stack, whose constants do not know DeepSeek.
TEST(Plan, DeepSeekV3UnderDualPipeTakesThePublishedDays) {
  PlanRequest job;
  job.model = *spec::FindModel("deepseek-v3");
  job.cluster = *spec::ParseClusterName("h800-sxm:2048");
  job.base.batch.global = 15'360;
  job.base.precision = spec::Precision::kFp8;
  job.base.software.framework = "megatron-core";
  job.reach = Reach::kEverything;
  job.headroom = 0.04;
  ASSERT_EQ(ParseFixed("pipeline=16,expert=64,tensor=1,schedule=dualpipe,zero=1", job.fixed),
            Status());
  PlanOptions options;
  options.tokens = options.run.tokens = 14.8e12;
  const Plan plan = MakePlan(job, options);
  ASSERT_FALSE(plan.best.empty());
  const Proposal& best = plan.best.front();
  EXPECT_TRUE(best.training.software.overlap_expert);
  EXPECT_LT(best.run->days.low, 54.2);
  EXPECT_GT(best.run->days.high, 54.2);
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

Question ExpertQuestion() {
  Question question = SmallQuestion();
  question.model.experts = spec::Experts{.count = 16, .top_k = 2, .ffn_hidden = 1024};
  question.training.layout.expert = 4;
  return question;
}

TEST(Change, SwitchesTheOverlapOfTheExpertsExchange) {
  Question question = ExpertQuestion();
  ASSERT_EQ(Change("overlap.expert=true", question), Status());
  EXPECT_TRUE(question.training.software.overlap_expert);
  EXPECT_THAT(LayoutText(question.training), HasSubstr("overlap_expert=true"));
  ASSERT_EQ(Change("overlap_expert=false", question), Status());
  EXPECT_FALSE(question.training.software.overlap_expert);
}

// DualPipe implies it; a layout without an exchange has none.
TEST(Change, SettlesTheOverlapByTheRestOfTheLayout) {
  Question question = ExpertQuestion();
  question.training.layout.pipeline = 2;
  question.training.layout.data = 8;
  ASSERT_EQ(Change("schedule=dualpipe", question), Status());
  EXPECT_TRUE(question.training.software.overlap_expert);
  EXPECT_THAT(Change("overlap_expert=false", question).message(), HasSubstr("dualpipe"));
  question = ExpertQuestion();
  ASSERT_EQ(Change("overlap_expert=true", question), Status());
  ASSERT_EQ(Change("expert=1", question), Status());
  EXPECT_FALSE(question.training.software.overlap_expert);
  EXPECT_THAT(Change("overlap_expert=true", question).message(), HasSubstr("expert 2 or more"));
  question = SmallQuestion();
  EXPECT_THAT(Change("overlap_expert=true", question).message(), HasSubstr("no experts"));
}

TEST(Change, RefusesWhatCannotRun) {
  Question question = SmallQuestion();
  EXPECT_THAT(Change("tensor=3", question).message(), HasSubstr("tensor 3"));
  EXPECT_THAT(Change("netwrk=3", question).message(), HasSubstr("no layout key"));
}

}  // namespace
}  // namespace longhaul::planner::search
