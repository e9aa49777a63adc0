#include "engines/kubernetes/jobs/worker_growth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace longhaul::engines::kubernetes {
namespace {

// The decision for a job of 2 workers which grows by `step`, up to `most`. Each worker is a
// character of `workers`: B has a node, w waits for one, g has a gate, and - does not exist. The
// answer has m for a worker that is made and u for a gate that is removed.
std::string Decide(const std::string& workers, uint32_t step, uint32_t most) {
  LonghaulJob job;
  job.desired = 2;
  job.step = step;
  std::map<uint32_t, JobPod> pods;
  ServingWorkers serving;
  for (uint32_t index = 0; index < workers.size(); ++index) {
    if (workers[index] == '-') continue;
    JobPod& pod = pods[index];
    pod.index = index;
    pod.node = workers[index] == 'B' ? "n" : "";
    pod.gated = workers[index] == 'g';
    serving[index] = &pod;
  }
  const GrowthDecision decision = DecideGrowth(job, most, serving);
  std::string answer(most, '.');
  for (const uint32_t index : decision.missing) answer.at(index) = 'm';
  for (const JobPod* pod : decision.gated) answer.at(pod->index) = 'u';
  return answer;
}

TEST(DecideGrowth, AddsOneGroupAtATime) {
  const struct {
    const char* workers;
    uint32_t step;
    const char* want;
  } kRows[] = {
      {"BB----", 1, "..m..."},  // all have nodes
      {"BBg---", 1, "..u..."},  // one pod is a whole group of 1
      {"BBw---", 1, "......"},  // it waits for room, and no other one is made
      {"BBB---", 1, "...m.."}, {"BBBBBB", 1, "......"},  // as many as it may have
      {"Bw----", 1, "......"},                           // a worker has no node
      {"-BBB--", 1, "......"},                           // a worker is lost, and others stay
      {"BB-B--", 1, "..m..."},                           // the first one of the extra ones is lost
      {"BB----", 2, "..mm.."}, {"BBg---", 2, "...m.."},  // the gate stays until both exist
      {"BBgg--", 2, "..uu.."}, {"BBBw--", 2, "......"},
      {"BBBB--", 2, "....mm"}, {"BBB-g-", 2, "...m.."},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Decide(row.workers, row.step, 6), row.want) << row.workers << " by " << row.step;
  }
}

TEST(DecideGrowth, EndsAtTheBound) {
  EXPECT_EQ(Decide("BB", 1, 2), "..");
  EXPECT_EQ(Decide("BB", 2, 3), "...");
  EXPECT_EQ(Decide("BBBB", 2, 6), "....mm");
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
