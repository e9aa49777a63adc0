#include "planner/search/stage_recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "planner/search/oracle.h"
#include "planner/search/plan.h"
#include "planner/search/proof.h"
#include "planner/search/random_job_testing.h"
#include "planner/search/settings.h"
#include "planner/search/why_not.h"
#include "spec/cluster/device_cluster.h"

namespace longhaul::planner::search::stage_recompute_test {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

using spec::RecomputeKind;
using spec::RecomputeModules;
using spec::RecomputeRun;
using testing::HasSubstr;

// Every choice of one stage: so many first layers in full, so many for each module.
std::vector<std::vector<RecomputeRun>> AllRuns(const PlanRequest& job, uint32_t stage,
                                               uint32_t layers) {
  const std::vector<RecomputeModules> modules = SingleModules(job);
  std::vector<std::vector<RecomputeRun>> all;
  std::vector<uint32_t> counts(modules.size() + 1, 0);
  const auto add = [&] {
    std::vector<RecomputeRun> runs;
    const uint32_t full = counts.back();
    bool activation = false;
    bool moe = false;
    for (uint32_t layer = 0; layer < layers; ++layer) {
      RecomputeRun run{stage, 1, RecomputeKind::kSelective, {}};
      if (layer < full) {
        run.kind = RecomputeKind::kFull;
      } else {
        for (size_t k = 0; k < modules.size(); ++k) {
          if (layer >= counts[k]) continue;
          run.modules.layer_norm |= modules[k].layer_norm;
          run.modules.mlp |= modules[k].mlp;
          run.modules.core_attention |= modules[k].core_attention;
          run.modules.mla_up_projection |= modules[k].mla_up_projection;
          run.modules.moe_activation |= modules[k].moe_activation;
          run.modules.moe |= modules[k].moe;
        }
        activation = activation || run.modules.moe_activation;
        moe = moe || run.modules.moe;
      }
      if (run.kind == RecomputeKind::kFull || run.modules.any()) runs.push_back(run);
    }
    if (!(activation && moe)) all.push_back(runs);
  };
  const std::function<void(size_t)> descend = [&](size_t k) {
    if (k == counts.size()) return add();
    for (counts[k] = 0; counts[k] <= layers; ++counts[k]) descend(k + 1);
    counts[k] = 0;
  };
  descend(0);
  return all;
}

struct Walked {
  double step_s = kNever;
  uint64_t choices = 0;
};

// The fastest of all choices of both stages that fits.
Walked WalkTwoStages(const PlanRequest& job, const spec::Training& bare, uint32_t first,
                     uint32_t second) {
  const auto oracle = EvaluatorOracle(job)();
  Walked walked;
  spec::Training training = bare;
  for (const auto& runs : AllRuns(job, 0, first)) {
    for (const auto& more : AllRuns(job, 1, second)) {
      training.recompute = {};
      training.recompute.kind = RecomputeKind::kByStage;
      training.stage_recompute = runs;
      training.stage_recompute.insert(training.stage_recompute.end(), more.begin(), more.end());
      if (training.stage_recompute.empty()) training.recompute = {};
      ++walked.choices;
      const double step_s = oracle->StepSeconds(training);
      if (step_s >= walked.step_s || oracle->MemoryBytes(training) > MemoryLimit(job)) continue;
      walked.step_s = step_s;
    }
  }
  return walked;
}

// A layout of two stages, and a GPU that holds a part of what it keeps without recompute.
struct Tight {
  PlanRequest job;
  spec::Training training;
};

std::optional<Tight> TightLayout(uint64_t seed) {
  std::mt19937_64 rng(seed * 77);
  Tight tight;
  PlanRequest& job = tight.job;
  job = RandomJob(seed);
  job.gpus.clear();
  job.fixed = {};
  job.model.layers = 2 + static_cast<uint32_t>(rng() % 3);
  job.cluster.devices = 8;
  job.base.batch.global = 32;
  spec::Training& training = tight.training;
  training = job.base;
  spec::Layout& layout = training.layout;
  layout.pipeline = 2;
  layout.tensor = rng() % 2 == 0 ? 1 : 2;
  layout.sequence_parallel = layout.tensor > 1 && rng() % 2 == 0;
  layout.data = 8 / layout.tensor / 2;
  layout.zero_stage = rng() % 2 == 0 ? 0 : 1;
  if (rng() % 3 == 0 && job.model.layers == 4) layout.virtual_pipeline = 2;
  training.batch.micro = rng() % 2 == 0 ? 1 : 2;
  PlanRequest open = job;
  open.cluster.device.memory = Bytes(int64_t{1} << 42);
  const auto oracle = EvaluatorOracle(open)();
  const int64_t none = oracle->MemoryBytes(training);
  spec::Training full = training;
  full.recompute.kind = RecomputeKind::kFull;
  const int64_t least = oracle->MemoryBytes(full);
  if (none - least < (int64_t{1} << 20)) return std::nullopt;
  const double share = 0.05 + 0.9 * static_cast<double>(rng() % 1000) / 1000;
  job.cluster.device.memory =
      Bytes(least + static_cast<int64_t>(share * static_cast<double>(none - least)));
  return tight;
}

TEST(StageRecompute, IsTheFastestOfAllChoicesThatFit) {
  int compared = 0;
  int unlike = 0;
  uint64_t choices = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const std::optional<Tight> tight = TightLayout(seed);
    if (!tight) continue;
    const PlanRequest& job = tight->job;
    if (SingleModules(job).size() > 2 && job.model.layers > 3) continue;
    const auto oracle = EvaluatorOracle(job)();
    spec::Training chosen = tight->training;
    const bool found = oracle->Choose(chosen, kNever);
    const Evaluation evaluation =
        EvaluatorOf(job, job.cluster, job.base.software).Evaluate(tight->training);
    const Walked walked = WalkTwoStages(job, tight->training, evaluation.stages[0].layers,
                                        evaluation.stages[1].layers);
    choices += walked.choices;
    ASSERT_EQ(found, walked.step_s < kNever) << "seed " << seed;
    if (!found) continue;
    ++compared;
    EXPECT_LE(oracle->MemoryBytes(chosen), MemoryLimit(job)) << "seed " << seed;
    EXPECT_NEAR(oracle->StepSeconds(chosen), walked.step_s, 1e-9 * walked.step_s)
        << "seed " << seed << " " << LayoutText(chosen);
    const auto stages = StageRecomputeTexts(chosen);
    unlike += stages[0] != stages[1] ? 1 : 0;
  }
  EXPECT_GE(compared, 30);
  EXPECT_GE(unlike, 15);
  EXPECT_GT(choices, 10'000u);
}

// What is enough only ends the search for a choice early: a choice that takes less is found and is
// the same, and the bound that replaces one that does not is not above it.
TEST(StageRecompute, EndsEarlyWithoutLosingAChoice) {
  constexpr spec::PipelineSchedule kSchedules[] = {
      spec::PipelineSchedule::kOneForwardOneBackward, spec::PipelineSchedule::kGpipe,
      spec::PipelineSchedule::kZeroBubbleH1, spec::PipelineSchedule::kDualPipe};
  int compared = 0;
  int ended = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::optional<Tight> tight = TightLayout(seed);
    if (!tight) continue;
    spec::Layout& layout = tight->training.layout;
    if (layout.virtual_pipeline == 1) layout.schedule = kSchedules[seed % 4];
    if (seed % 3 == 0) layout.zero_stage = 3;
    const auto oracle = EvaluatorOracle(tight->job)();
    spec::Training best = tight->training;
    if (!oracle->Choose(best, kNever)) continue;
    const double step_s = oracle->StepSeconds(best);
    ++compared;
    spec::Training open = tight->training;
    open.recompute.kind = RecomputeKind::kByStage;
    for (const double enough : {0.5, 0.9, 0.99, 0.9999}) {
      const double bound = oracle->RecomputeBound(open, enough * step_s);
      EXPECT_LE(bound, step_s * (1 + 1e-9)) << "seed " << seed << " enough " << enough;
      spec::Training none = open;
      ended += oracle->Choose(none, enough * step_s) ? 0 : 1;
    }
    spec::Training again = open;
    ASSERT_TRUE(oracle->Choose(again, step_s * 1.0001)) << "seed " << seed;
    EXPECT_DOUBLE_EQ(oracle->StepSeconds(again), step_s) << "seed " << seed;
  }
  EXPECT_GT(compared, 100);
  EXPECT_GT(ended, 100);
}

// A pipeline of four whose first stage holds four micro-batches and whose last holds one.
PlanRequest FourStages() {
  PlanRequest job;
  job.model.layers = 16;
  job.model.hidden = 4096;
  job.model.ffn_hidden = 16'384;
  job.model.heads = job.model.kv_heads = 32;
  job.model.head_dim = 128;
  job.model.vocabulary = 32'000;
  job.model.sequence_length = 4096;
  job.cluster = *spec::ParseClusterName("h100-sxm:8");
  job.base.batch.global = 32;
  job.base.software.framework = "megatron-core";
  job.reach = Reach::kEverything;
  EXPECT_EQ(ParseFixed("tp=1,cp=1,pp=4,vp=1,mb=1,schedule=1f1b,zero=1,offload=none", job.fixed),
            Status());
  // Between what the fullest GPU takes without recompute and with all of it.
  spec::Training training = job.base;
  training.layout.pipeline = 4;
  training.layout.data = 2;
  training.layout.zero_stage = 1;
  const auto oracle = EvaluatorOracle(job)();
  const int64_t none = oracle->MemoryBytes(training);
  training.recompute.kind = RecomputeKind::kFull;
  job.cluster.device.memory = Bytes((none + oracle->MemoryBytes(training)) / 2);
  return job;
}

TEST(StageRecompute, EarlyStagesRecomputeMoreAndTheSearchFindsIt) {
  PlanRequest job = FourStages();
  PlanOptions options;
  options.prove = true;
  const Plan plan = MakePlan(job, options);
  ASSERT_FALSE(plan.best.empty());
  EXPECT_TRUE(plan.proof->holds());
  const Proposal& best = plan.best.front();
  ASSERT_EQ(best.training.recompute.kind, RecomputeKind::kByStage);
  uint32_t first = 0;
  uint32_t last = 0;
  for (const RecomputeRun& run : best.training.stage_recompute) {
    if (run.stage == 0) first += run.layers;
    if (run.stage == 3) last += run.layers;
  }
  EXPECT_GT(first, last);
  job.recompute_by_stage = false;
  options.prove = false;
  const Plan uniform = MakePlan(job, options);
  ASSERT_FALSE(uniform.best.empty());
  EXPECT_LT(best.evaluation.step.count(), 0.999 * uniform.best.front().evaluation.step.count());
  // What frameworks can do with it is what the search over one choice for all finds.
  ASSERT_TRUE(plan.uniform);
  EXPECT_GE(plan.uniform->evaluation.step, uniform.best.front().evaluation.step);
}

TEST(StageRecompute, IsReadBackAndExplained) {
  const PlanRequest job = FourStages();
  PlanOptions options;
  const Plan plan = MakePlan(job, options);
  const Proposal& best = plan.best.front();
  PlanRequest named = job;
  named.fixed = {};
  ASSERT_EQ(ParseFixed(LayoutText(best.training), named.fixed), Status());
  named.fixed.virtual_pipeline = 1;
  named.fixed.offload = spec::Offload::kNone;
  const Outcome again = Search(named, EvaluatorOracle(named));
  ASSERT_FALSE(again.best.empty());
  EXPECT_EQ(LayoutText(again.best.front().training), LayoutText(best.training));
  EXPECT_DOUBLE_EQ(again.best.front().step_s, best.evaluation.step.count());
  // All of a stage's layers in full: slower, and by its recompute.
  Fixed heavy = job.fixed;
  ASSERT_EQ(ParseFixed("recompute=full:4@4", heavy), Status());
  const std::string why = WhyNot(plan, heavy, options);
  EXPECT_THAT(why, HasSubstr("against the best: recompute +"));
  Fixed light = job.fixed;
  ASSERT_EQ(ParseFixed("recompute=layer_norm:1/none@3", light), Status());
  EXPECT_THAT(WhyNot(plan, light, options), HasSubstr("does not fit"));
  Fixed beyond = job.fixed;
  ASSERT_EQ(ParseFixed("recompute=none@7/full:1", beyond), Status());
  EXPECT_THAT(WhyNot(plan, beyond, options), HasSubstr("recompute is given for stage 7"));
}

TEST(StageRecompute, IsChosenAnewByAWhatIf) {
  const PlanRequest job = FourStages();
  const PlanOptions options;
  const Plan plan = MakePlan(job, options);
  const auto faster = WhatIf(job, plan.best.front(), "memory_gib=200", options);
  ASSERT_EQ(faster.status(), Status());
  EXPECT_TRUE(faster->training.stage_recompute.empty());
  EXPECT_LT(faster->evaluation.step, plan.best.front().evaluation.step);
}

TEST(ParseFixed, ReadsRunsOfStages) {
  Fixed fixed;
  ASSERT_EQ(ParseFixed("recompute=full:2.mlp+layer_norm:3/mlp:1@2/none", fixed), Status());
  ASSERT_EQ(fixed.stage_recompute.size(), 4u);
  EXPECT_EQ(fixed.stage_recompute[1].layers, 3u);
  EXPECT_TRUE(fixed.stage_recompute[1].modules.layer_norm);
  EXPECT_EQ(fixed.stage_recompute[3].stage, 2u);
  for (const char* bad : {"recompute=mlp/none", "recompute=full:0/none", "recompute=mpl:2/none",
                          "recompute=none@0", "recompute=none@10001/none", "recompute=stage:2"}) {
    EXPECT_NE(ParseFixed(bad, fixed), Status()) << bad;
  }
}

}  // namespace
}  // namespace longhaul::planner::search::stage_recompute_test
