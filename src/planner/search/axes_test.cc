// Each axis of the search wins somewhere: a job whose best layout uses it, and is slower or fits
// nowhere when the axis is fixed to its plain value.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "planner/search/plan.h"
#include "planner/search/settings.h"
#include "spec/cluster/device_cluster.h"

namespace longhaul::planner::search::axes_test {
namespace {

PlanRequest DenseJob(const char* cluster, uint32_t batch) {
  PlanRequest job;
  job.model.layers = 16;
  job.model.hidden = 4096;
  job.model.ffn_hidden = 16'384;
  job.model.heads = job.model.kv_heads = 32;
  job.model.head_dim = 128;
  job.model.vocabulary = 32'000;
  job.model.sequence_length = 4096;
  job.cluster = *spec::ParseClusterName(cluster);
  job.base.batch.global = batch;
  job.base.software.framework = "megatron-core";
  job.reach = Reach::kEverything;
  return job;
}

struct Row {
  const char* name;
  const char* cluster;
  uint32_t batch;
  double memory_gib;
  const char* fixed;  // besides the axis
  const char* plain;  // the axis off
  const char* uses;   // a part of the best layout's text
  std::function<void(PlanRequest&)> change;
};

void ManyExperts(PlanRequest& job) {
  job.model.experts = spec::Experts{.count = 64, .top_k = 4, .ffn_hidden = 2048};
}
void LongSequence(PlanRequest& job) { job.model.sequence_length = 131'072; }
void OddLayers(PlanRequest& job) {
  job.model.layers = 18;
  job.model.vocabulary = 256'000;
}
void SlowNetwork(PlanRequest& job) { job.cluster.network.per_device = BytesPerSecond(5e9); }
void Nothing(PlanRequest&) {}

const Row kRows[] = {
    {"offload of the optimizer", "h100-sxm:1", 8, 40, "", "offload=none", "offload=optimizer",
     Nothing},
    {"offload of activations", "h100-sxm:8", 8, 66, "tp=1,cp=1,pp=1,zero=0,recompute=none,mb=1",
     "offload=none", "offload=activations", Nothing},
    {"uneven stages", "h100-sxm:8", 32, 80, "pp=4,vp=1,tp=1,cp=1,schedule=1f1b,recompute=none",
     "layers=4+5+5+4", "layers=", OddLayers},
    {"interleaving", "h100-sxm:8", 16, 80, "pp=4,tp=2,cp=1,schedule=1f1b", "vp=1",
     "virtual_pipeline=", Nothing},
    {"another schedule", "h100-sxm:8", 16, 80, "pp=4,tp=2,cp=1,vp=1", "schedule=1f1b",
     "schedule=dualpipe", Nothing},
    {"context", "h100-sxm:16", 1, 80, "", "context=1", "context=", LongSequence},
    {"experts", "h100-sxm:16", 64, 80, "", "expert=1", "expert=", ManyExperts},
    {"overlap of the experts' exchange", "h100-sxm:16", 64, 80, "expert=16,pp=1,tp=1,cp=1,mb=1",
     "overlap_expert=false", "overlap_expert=true", ManyExperts},
    {"tensor", "h100-sxm:8", 8, 60, "cp=1,pp=1,zero=0,offload=none", "tensor=1",
     "tensor=", Nothing},
    {"ZeRO 1", "h100-sxm:8", 64, 60, "tp=1,pp=1,cp=1", "zero=0", "zero=", Nothing},
    {"ZeRO 3", "h100-sxm:8", 8, 13, "tp=1,pp=1,cp=1,offload=none", "zero=2", "zero=3", Nothing},
    {"a shard group", "h100-sxm:64", 1024, 80, "tp=1,pp=1,cp=1,zero=3", "shard_group=0",
     "shard_group=8", SlowNetwork},
    {"a place of groups", "h100-sxm:16", 512, 80, "tp=2,pp=2,cp=1,schedule=1f1b",
     "order=tensor-context-data-pipeline", "order=", SlowNetwork},
    {"recompute", "h100-sxm:8", 32, 22, "pp=1,tp=1,cp=1,zero=3,mb=2,offload=none", "recompute=none",
     "recompute=", Nothing},
    {"micro batch", "h100-sxm:8", 64, 80, "pp=1,tp=1,cp=1", "mb=1", "micro=", Nothing},
};

TEST(Axes, EachWinsSomewhere) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    PlanRequest job = DenseJob(row.cluster, row.batch);
    job.cluster.device.memory = Bytes(static_cast<int64_t>(row.memory_gib * (1 << 30)));
    row.change(job);
    if (*row.fixed != '\0') {
      ASSERT_EQ(ParseFixed(row.fixed, job.fixed), Status());
    }
    Options options;
    options.keep = 1;
    const Outcome free = Search(job, EvaluatorOracle(job), options);
    ASSERT_FALSE(free.best.empty());
    const std::string text = LayoutText(free.best.front().training);
    EXPECT_NE(text.find(row.uses), std::string::npos) << text;
    ASSERT_EQ(ParseFixed(row.plain, job.fixed), Status());
    const Outcome plain = Search(job, EvaluatorOracle(job), options);
    EXPECT_GT(plain.total_points(), 0u);
    if (plain.best.empty()) continue;
    EXPECT_LT(free.best.front().step_s, 0.9999 * plain.best.front().step_s)
        << text << " against " << LayoutText(plain.best.front().training);
  }
}

}  // namespace
}  // namespace longhaul::planner::search::axes_test
