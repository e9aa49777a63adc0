#include "runtime/agent/worker_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace longhaul::runtime::agent {
namespace {

using Variables = std::map<std::string, std::string>;
using testing::HasSubstr;

Variables With(const std::vector<uint32_t>& devices, Variables environment,
               const Variables& named = {}) {
  const Status status = AssignDevices(devices, named, environment);
  EXPECT_TRUE(status.ok()) << status;
  return environment;
}

TEST(WorkerDevices, AreNamedForTheWorkerAndForCuda) {
  EXPECT_EQ(
      With({1, 3}, {{"PATH", "/bin"}}),
      (Variables{{"PATH", "/bin"}, {"LONGHAUL_DEVICES", "1,3"}, {"CUDA_VISIBLE_DEVICES", "1,3"}}));
}

TEST(WorkerDevices, LeaveTheEnvironmentAsItIsIfNoneAreAssigned) {
  EXPECT_EQ(With({}, {{"CUDA_VISIBLE_DEVICES", "2"}}), (Variables{{"CUDA_VISIBLE_DEVICES", "2"}}));
}

TEST(WorkerDevices, KeepTheChoiceOfTheJob) {
  const Variables named = {{"CUDA_VISIBLE_DEVICES", "7"}};
  EXPECT_EQ(With({1}, named, named),
            (Variables{{"LONGHAUL_DEVICES", "1"}, {"CUDA_VISIBLE_DEVICES", "7"}}));
}

TEST(WorkerDevices, AreEntriesOfTheListOfTheAgent) {
  const Variables migs = {{"CUDA_VISIBLE_DEVICES", "MIG-a, MIG-b,MIG-c"}};
  EXPECT_EQ(With({1}, migs).at("CUDA_VISIBLE_DEVICES"), "MIG-b");
  EXPECT_EQ(With({0, 2}, migs).at("CUDA_VISIBLE_DEVICES"), "MIG-a,MIG-c");
  EXPECT_EQ(With({0}, {{"CUDA_VISIBLE_DEVICES", ""}}).at("CUDA_VISIBLE_DEVICES"), "");
  Variables short_list = {{"CUDA_VISIBLE_DEVICES", "4,5"}};
  const std::vector<uint32_t> devices = {2};
  EXPECT_THAT(AssignDevices(devices, {}, short_list).message(),
              HasSubstr("device 2 of its node, but CUDA_VISIBLE_DEVICES of the agent lists 2"));
}

}  // namespace
}  // namespace longhaul::runtime::agent
