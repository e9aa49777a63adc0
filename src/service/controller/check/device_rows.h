// The results of check commands between the agents, which may send anything, and the judgement of
// them (runtime/node_check/device_judge.h).
#pragma once

#include "base/time.h"
#include "proto/check.pb.h"
#include "runtime/node_check/device_judge.h"

namespace longhaul::service {

// The limit of a node's check command, as its agent states it: zero without a command, at most
// kMostCheckCommandLimit.
Duration CommandLimitOf(const proto::SelfTestResult& result);

// Everything within the limits of device_lines.h, and printable.
runtime::node_check::DeviceTest DeviceTestOf(const proto::DeviceTestResult& result);

// Adds the measurements and what they were judged to be. Requires the judgement of the test.
void AddDeviceRows(const runtime::node_check::DeviceTest& test,
                   const runtime::node_check::DeviceJudgement& judgement, proto::CheckedNode& node);

}  // namespace longhaul::service
