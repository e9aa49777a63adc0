// The CPU time of one event of a watch of pods: cutting the line, finding the change, reading the
// pod.

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "engines/kubernetes/protocol/objects/pod.h"
#include "engines/kubernetes/protocol/watch_lines.h"
#include "engines/kubernetes/protocol/watch_state.h"

namespace longhaul::engines::kubernetes {
namespace {

// A pod of a training job as an API server sends it, about 3 KB, of which managedFields are 1.4 KB.
std::string PodText(int name, int version) {
  std::string managed;
  for (int i = 0; i < 40; ++i)
    managed += R"("f:field)" + std::to_string(i) + R"(":{".":{},"f:a":{}},)";
  std::string environment;
  for (int i = 0; i < 12; ++i) {
    environment += R"({"name":"VARIABLE_)" + std::to_string(i) + R"(","value":"some value"},)";
  }
  return R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"rank-)" + std::to_string(name) +
         R"(","namespace":"training","uid":"5fa1ff11-0000-4000-8000-000000000001",)"
         R"("resourceVersion":")" +
         std::to_string(version) +
         R"(","creationTimestamp":"2026-01-31T08:00:00Z","labels":{"app":"training","job":"j"},)"
         R"("managedFields":[{"manager":"x","fieldsV1":{)" +
         managed +
         R"("f:z":{}}}]},"spec":{"schedulerName":"longhaul","containers":[{"name":"main",)" +
         R"("image":"registry.example/training:1","env":[)" + environment +
         R"({"name":"LAST","value":""}],"resources":{"limits":{"cpu":"16","memory":"128Gi",)"
         R"("nvidia.com/gpu":"8"},"requests":{"cpu":"16)"
         R"(","memory":"128Gi","nvidia.com/gpu":"8"}}}],)"
         R"("tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists",)"
         R"("effect":"NoExecute","tolerationSeconds":300}]},"status":{"phase":"Pending"}})";
}

class Reader final : public WatchSink {
 public:
  void OnChange(const Change& change) override {
    const Result<Pod> pod = ReadPodWithMeta(parser_, change.object, change.meta);
    CHECK(pod.ok()) << pod.status().message();
    benchmark::DoNotOptimize(pod->requests.size());
  }
  void OnSynced() override {}
  void OnTrouble(const Status& status) override { CHECK(false) << status.message(); }

 private:
  JsonParser parser_;
};

void ReadEvents(benchmark::State& state) {
  constexpr int kPods = 1'000;
  std::vector<std::string> rounds(2);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kPods; ++i) {
      rounds[static_cast<size_t>(round)] +=
          R"({"type":"ADDED","object":)" + PodText(i, round * kPods + i) + "}\n";
    }
  }
  Reader reader;
  WatchSettings settings;
  settings.path = "/api/v1/pods";
  WatchState watch(settings, 1, reader);
  WatchLines lines;
  const Instant now = InstantFromNanoseconds(0);
  watch.Next(now);
  size_t round = 0;
  for ([[maybe_unused]] auto iteration : state) {
    const Status status = lines.Append(rounds[round++ % 2], [&](PaddedText line) {
      CHECK(watch.OnLine(line, now));
      return Status();
    });
    CHECK(status.ok());
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * kPods);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * rounds[0].size()));
}
BENCHMARK(ReadEvents)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace longhaul::engines::kubernetes

BENCHMARK_MAIN();
