#include "runtime/node_check/device_judge.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <tuple>

#include "runtime/node_check/judge.h"

namespace longhaul::runtime::node_check {
namespace {

constexpr size_t kMostNamedDevices = 3;  // of a node's devices, in its evidence

using DeviceKey = std::tuple<std::string, std::string, std::string, bool>;

DeviceKey KeyOf(const DeviceValue& value) {
  return {value.name, value.model, value.unit, value.higher_is_better};
}

// The time for a fixed amount of work, or what is compared like one: less is better.
double CostOf(const DeviceValue& value) {
  return value.higher_is_better ? 1 / value.value : value.value;
}

bool HasCost(const DeviceValue& value) { return value.failed.empty() && value.value > 0; }

std::string NumberText(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// The costs of all nodes, by what is measured.
std::map<DeviceKey, std::vector<std::optional<double>>> CostsOf(
    const std::vector<std::optional<DeviceTest>>& tests) {
  std::map<DeviceKey, std::vector<std::optional<double>>> costs;
  for (size_t node = 0; node < tests.size(); ++node) {
    if (!tests[node]) continue;
    for (const DeviceValue& value : tests[node]->values) {
      if (!HasCost(value)) continue;
      auto& of_key = costs[KeyOf(value)];
      of_key.resize(tests.size());
      of_key[node] = CostOf(value);
    }
  }
  return costs;
}

// Compares a value with the costs of the same measurement on all nodes.
JudgedValue Judge(const DeviceValue& value, const std::vector<std::optional<double>>& reference) {
  JudgedValue judged;
  const std::optional<double> median = MedianOfKnown(reference);
  if (!median) return judged;
  judged.median = value.higher_is_better ? 1 / *median : *median;
  if (CostOf(value) / *median > kDeviceSlowFactor) judged.verdict = Verdict::kSlow;
  return judged;
}

std::string SlowText(const DeviceValue& value, const JudgedValue& judged) {
  const std::string unit = value.unit.empty() ? "" : " " + value.unit;
  return value.name + " is slow: " + NumberText("%.4g", value.value) + unit + ", the median is " +
         NumberText("%.4g", judged.median) + unit;
}

// Collects the evidence of one node, at most kMostNamedDevices texts of each verdict.
class EvidenceText {
 public:
  explicit EvidenceText(DeviceJudgement& judgement) : judgement_(judgement) {}

  void Add(Verdict verdict, const std::string& text) {
    judgement_.verdict = std::max(judgement_.verdict, verdict);
    std::vector<std::string>& texts = texts_[verdict];
    if (texts.size() < kMostNamedDevices) {
      texts.push_back(text);
    } else {
      ++further_;
    }
  }

  // The worst first.
  void Finish() {
    for (auto each = texts_.rbegin(); each != texts_.rend(); ++each) {
      for (const std::string& text : each->second) {
        judgement_.evidence += (judgement_.evidence.empty() ? "" : "; ") + text;
      }
    }
    if (further_ > 0) judgement_.evidence += "; and " + std::to_string(further_) + " more";
  }

 private:
  DeviceJudgement& judgement_;
  std::map<Verdict, std::vector<std::string>> texts_;
  size_t further_ = 0;
};

}  // namespace

void AddDeviceTest(DeviceTest& known, const DeviceTest& again) {
  if (known.failure.empty()) known.failure = again.failure;
  if (known.mistake.empty()) known.mistake = again.mistake;
  for (const DeviceValue& value : again.values) {
    const auto same = std::ranges::find_if(
        known.values, [&](const DeviceValue& each) { return KeyOf(each) == KeyOf(value); });
    if (same == known.values.end()) {
      known.values.push_back(value);  // such as a failure, which has no unit
    } else if (!value.failed.empty()) {
      same->failed = value.failed;
    } else if (HasCost(*same) && HasCost(value) && CostOf(value) < CostOf(*same)) {
      *same = value;
    }
  }
}

std::vector<DeviceJudgement> JudgeDevices(const std::vector<std::optional<DeviceTest>>& tests,
                                          const std::vector<std::optional<DeviceTest>>& reference) {
  const auto costs = CostsOf(reference);
  std::vector<DeviceJudgement> judgements(tests.size());
  for (size_t node = 0; node < tests.size(); ++node) {
    if (!tests[node]) continue;
    DeviceJudgement& judgement = judgements[node];
    EvidenceText evidence(judgement);
    if (!tests[node]->mistake.empty()) evidence.Add(Verdict::kUndecided, tests[node]->mistake);
    for (const DeviceValue& value : tests[node]->values) {
      JudgedValue& judged = judgement.values.emplace_back();
      if (!value.failed.empty()) {
        judged.verdict = Verdict::kBad;
        evidence.Add(Verdict::kBad, value.name + ": " + value.failed);
        continue;
      }
      const auto found = costs.find(KeyOf(value));
      if (found == costs.end() || !HasCost(value)) continue;
      judged = Judge(value, found->second);
      if (judged.verdict == Verdict::kSlow) evidence.Add(Verdict::kSlow, SlowText(value, judged));
    }
    if (!tests[node]->failure.empty()) evidence.Add(Verdict::kBad, tests[node]->failure);
    evidence.Finish();
  }
  return judgements;
}

}  // namespace longhaul::runtime::node_check
