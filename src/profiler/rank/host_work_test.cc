// Traces of PyTorch on a processor, where operators stand inside each other: what each computed by
// itself, worked by hand and as torch.profiler says.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "profiler/rank/summary.h"
#include "profiler/read/kineto_reader.h"

namespace longhaul::profiler {
namespace {

RankSummary Of(std::string_view text) {
  const auto source = OpenBytes(text);
  return Summarize(ReadKineto(*source, "rank-0").value());
}

std::map<std::string, int64_t> UsByClass(const RankSummary& summary) {
  std::map<std::string, int64_t> us;
  for (const Segment& segment : summary.segments) {
    us[std::string(ToString(segment.spent))] += (segment.end_ns - segment.begin_ns) / 1000;
  }
  return us;
}

// Times in microseconds:
//   [0,100)   linear
//   [5,15)      t            a view: the product's that it is made for
//   [20,90)     addmm
//   [25,30)       expand     a view
//   [30,40)       copy_      elementwise by its own name
//   [45,50)       resolve_conj
//   [100,120) gelu
//   [130,140) view           a view of nothing: the host's
//   [140,150) mine::fused    unknown
//   [142,146)   mine::part   unknown
TEST(HostWork, OperatorsHaveTheirSelfTimeInTheClassOfTheNearestOneAroundThem) {
  const RankSummary summary = Of(R"([
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","tid":1,"ts":0,"dur":150},
{"ph":"X","cat":"cpu_op","name":"aten::linear","tid":1,"ts":0,"dur":100},
{"ph":"X","cat":"cpu_op","name":"aten::t","tid":1,"ts":5,"dur":10},
{"ph":"X","cat":"cpu_op","name":"aten::addmm","tid":1,"ts":20,"dur":70},
{"ph":"X","cat":"cpu_op","name":"aten::expand","tid":1,"ts":25,"dur":5},
{"ph":"X","cat":"cpu_op","name":"aten::copy_","tid":1,"ts":30,"dur":10},
{"ph":"X","cat":"cpu_op","name":"aten::resolve_conj","tid":1,"ts":45,"dur":5},
{"ph":"X","cat":"cpu_op","name":"aten::gelu","tid":1,"ts":100,"dur":20},
{"ph":"X","cat":"cpu_op","name":"aten::view","tid":1,"ts":130,"dur":10},
{"ph":"X","cat":"cpu_op","name":"mine::fused","tid":1,"ts":140,"dur":10},
{"ph":"X","cat":"cpu_op","name":"mine::part","tid":1,"ts":142,"dur":4}
])");
  const std::map<std::string, int64_t> want = {{"matrix products", 90},
                                               {"elementwise", 10},
                                               {"activations", 20},
                                               {"other compute", 10},
                                               {"kernel gaps", 20}};
  std::map<std::string, int64_t> got = UsByClass(summary);
  // What is left over is idle, whatever kind of it a gap of this length is.
  const int64_t idle = got["host"] + got["kernel gaps"] + got["dependencies"];
  for (const char* kind : {"host", "kernel gaps", "dependencies"}) got.erase(kind);
  got["kernel gaps"] = idle;
  EXPECT_EQ(got, want);
  std::map<std::string, std::pair<uint64_t, int64_t>> kernels;
  for (const KernelTotal& kernel : summary.kernels) {
    kernels[kernel.name] = {kernel.count, kernel.total_ns / 1000};
  }
  EXPECT_EQ(kernels["aten::addmm"], (std::pair<uint64_t, int64_t>(1, 50)));
  EXPECT_EQ(kernels["aten::linear"], (std::pair<uint64_t, int64_t>(1, 20)));
  EXPECT_EQ(kernels["mine::fused"], (std::pair<uint64_t, int64_t>(1, 6)));
}

// Rounding makes neighbours overlap, and a damaged file anything.
TEST(HostWork, OverlappingOperatorsCountEachNanosecondOnce) {
  const RankSummary summary = Of(R"([
{"ph":"X","cat":"cpu_op","name":"aten::mm","tid":1,"ts":0,"dur":10},
{"ph":"X","cat":"cpu_op","name":"aten::bmm","tid":1,"ts":8,"dur":12},
{"ph":"X","cat":"cpu_op","name":"aten::mm","tid":1,"ts":30,"dur":0}
])");
  int64_t ns = 0;
  uint64_t count = 0;
  for (const KernelTotal& kernel : summary.kernels) {
    ns += kernel.total_ns;
    count += kernel.count;
  }
  EXPECT_EQ(ns, 20'000);
  EXPECT_EQ(count, 3u);
}

TEST(HostWork, AnnotationsOfAPlainTraceComputeNothingAroundOperators) {
  const RankSummary summary = Of(R"([
{"ph":"X","name":"train loop","tid":1,"ts":0,"dur":100},
{"ph":"X","name":"work","tid":1,"ts":10,"dur":20}
])");
  ASSERT_EQ(summary.kernels.size(), 1u);
  EXPECT_EQ(summary.kernels[0].name, "work");
  EXPECT_EQ(summary.kernels[0].total_ns, 20'000);
}

// A collective is what its backend's thread does; the operator that starts it only dispatches.
TEST(HostWork, DispatchersOfCollectivesAreNotCollectives) {
  const RankSummary summary = Of(R"([
{"ph":"X","cat":"cpu_op","name":"c10d::allreduce_","tid":1,"ts":0,"dur":20},
{"ph":"X","cat":"cpu_op","name":"record_param_comms","tid":1,"ts":2,"dur":10},
{"ph":"X","cat":"user_annotation","name":"gloo:all_reduce","tid":2,"ts":10,"dur":50},
{"ph":"X","cat":"cpu_op","name":"aten::mm","tid":1,"ts":20,"dur":10}
])");
  ASSERT_EQ(summary.collectives.size(), 1u);
  EXPECT_EQ(summary.collectives[0].end_ns - summary.collectives[0].start_ns, 50'000);
  EXPECT_EQ(summary.kernels.size(), 2u);
}

// As PyTorch 1.13's own profiler writes it, without Kineto: nothing has a category.
TEST(HostWork, OperatorsWithoutACategoryAreKnownByTheirQualifiedNames) {
  const RankSummary summary = Of(R"([
{"ph":"X","name":"ProfilerStep#0","tid":1,"ts":0,"dur":100},
{"ph":"X","name":"AddmmBackward0","tid":1,"ts":5,"dur":90},
{"ph":"X","name":"aten::mm","tid":1,"ts":10,"dur":80},
{"ph":"X","name":"aten::resolve_conj","tid":1,"ts":20,"dur":0}
])");
  EXPECT_EQ(UsByClass(summary)["matrix products"], 80);
}

// A step of a transformer block in PyTorch 2.9.1 (d = 256, four sequences of 64 tokens, AdamW),
// with the "Self CPU" that torch.profiler's key_averages() gives for the same run.
TEST(HostWork, AgreesWithPyTorchsOwnSelfTime) {
  const std::string folder = "src/profiler/testdata/host/";
  const auto file = OpenFile(folder + "torch_2_9_cpu.json.gz").value();
  const RankSummary summary = Summarize(ReadKineto(*file, "rank-0").value());
  const auto truth = nlohmann::json::parse(std::ifstream(folder + "torch_2_9_cpu_self_time.json"));
  std::map<std::string, double> got;
  for (const KernelTotal& kernel : summary.kernels) {
    got[kernel.name] += static_cast<double>(kernel.total_ns) / 1e3;
  }
  double all = 0, products = 0;
  for (const auto& [name, row] : truth.items()) {
    const double self_us = row["self_us"];
    all += self_us;
    if (name == "aten::mm" || name == "aten::addmm" || name == "aten::bmm") products += self_us;
    // Views may be the host's overhead and then have no row.
    if (!got.contains(name)) continue;
    const double rounding_us = 0.002 * row["count"].get<double>();
    EXPECT_LE(got[name], self_us + rounding_us) << name;
    if (name == "aten::mm" || name == "aten::addmm" || name == "aten::copy_" ||
        name == "aten::gelu" || name == "aten::sqrt") {
      EXPECT_NEAR(got[name], self_us, rounding_us) << name;
    }
  }
  ASSERT_GT(products / all, 0.5);
  std::map<std::string, int64_t> us = UsByClass(summary);
  // Nothing else of the product's is more than dispatch.
  EXPECT_NEAR(static_cast<double>(us["matrix products"]), products, 0.02 * all);
  const int64_t wall =
      std::accumulate(us.begin(), us.end(), int64_t{0},
                      [](int64_t sum, const auto& entry) { return sum + entry.second; });
  EXPECT_LT(static_cast<double>(us["host"]), 0.25 * static_cast<double>(wall));
}

}  // namespace
}  // namespace longhaul::profiler
