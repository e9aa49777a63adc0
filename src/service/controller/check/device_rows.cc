#include "service/controller/check/device_rows.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "service/agent/check/check_command.h"
#include "service/agent/check/device_lines.h"

namespace longhaul::service {

Duration CommandLimitOf(const proto::SelfTestResult& result) {
  return std::clamp(Duration(result.command_limit_ns()), Duration(0), kMostCheckCommandLimit);
}

runtime::node_check::DeviceTest DeviceTestOf(const proto::DeviceTestResult& result) {
  runtime::node_check::DeviceTest test;
  test.failure = Printable(result.failure(), kLongestDeviceFailure);
  test.mistake = Printable(result.mistake(), kLongestDeviceFailure);
  for (const proto::DeviceMeasurement& each : result.measurements()) {
    if (test.values.size() == kMostDeviceLines) break;
    runtime::node_check::DeviceValue value;
    value.name = Printable(each.name(), kLongestDeviceName);
    value.model = Printable(each.model(), kLongestDeviceName);
    value.unit = Printable(each.unit(), kLongestDeviceUnit);
    value.higher_is_better = each.higher_is_better();
    value.failed = Printable(each.failed(), kLongestDeviceFailure);
    if (value.failed.empty()) {
      const bool usable = std::isfinite(each.value()) && each.value() > 0;
      if (usable) value.value = each.value();
      if (!usable) value.failed = "the agent sent no number above 0";
    }
    test.values.push_back(std::move(value));
  }
  return test;
}

void AddDeviceRows(const runtime::node_check::DeviceTest& test,
                   const runtime::node_check::DeviceJudgement& judgement,
                   proto::CheckedNode& node) {
  CHECK(test.values.size() == judgement.values.size());
  for (size_t i = 0; i < test.values.size(); ++i) {
    const runtime::node_check::DeviceValue& value = test.values[i];
    proto::DeviceMeasurement& row = *node.add_devices();
    row.set_name(value.name);
    row.set_model(value.model);
    row.set_value(value.value);
    row.set_unit(value.unit);
    row.set_higher_is_better(value.higher_is_better);
    row.set_failed(value.failed);
    row.set_verdict(std::string(ToString(judgement.values[i].verdict)));
    row.set_median(judgement.values[i].median);
  }
}

}  // namespace longhaul::service
