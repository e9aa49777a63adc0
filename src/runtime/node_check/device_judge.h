// What the devices of nodes are like, by the measurements of the nodes' check commands.
//
// A device that failed, or a command that failed, makes its node bad. A value is compared with the
// values of the same name, model and unit on the other nodes, by the median that judge.h uses for
// self tests: of two medians the better one counts, so that at most half of the nodes can be slow.
// With fewer than three values nothing is slow. An output that cannot be understood is a mistake in
// the command and no fault of a device: the node is undecided.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/node_check/verdict.h"

namespace longhaul::runtime::node_check {

// Good devices of one model differ by up to a fifth, through power and temperature (Sinha et al.,
// "Not All GPUs Are Created Equal", SC 2022).
constexpr double kDeviceSlowFactor = 1.5;
constexpr uint32_t kDeviceTests = 2;  // a device is slow if it was slow in as many

struct DeviceValue {
  std::string name;
  std::string model;
  std::string unit;
  double value = 0;  // finite and above zero, unless it failed
  bool higher_is_better = true;
  std::string failed;  // why; empty: it did not
};

struct DeviceTest {
  std::string failure;  // of the command; empty: none
  std::string mistake;  // in the command; empty: none
  std::vector<DeviceValue> values;
};

struct JudgedValue {
  Verdict verdict = Verdict::kGood;
  double median = 0;  // of the values that it was compared with; 0: none
};

struct DeviceJudgement {
  Verdict verdict = Verdict::kGood;
  std::string evidence;             // of a verdict that is not good
  std::vector<JudgedValue> values;  // in the order of the test's
};

// Keeps the better values and all failures of both tests.
void AddDeviceTest(DeviceTest& known, const DeviceTest& again);

// Returns a judgement for each node; good without a test. The values of `tests` are compared with
// those of `reference`, which all nodes measured at the same time.
std::vector<DeviceJudgement> JudgeDevices(const std::vector<std::optional<DeviceTest>>& tests,
                                          const std::vector<std::optional<DeviceTest>>& reference);

}  // namespace longhaul::runtime::node_check
