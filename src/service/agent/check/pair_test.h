// The test of the connection between two agents, over the peer port of the other one
// (docs/peer-transfer.md), with the secret that the agents share.
#pragma once

#include <string>

#include "base/time.h"
#include "proto/check.pb.h"

namespace longhaul::service {

// All of a pair test ends after this time, whatever the other agent does.
inline constexpr Duration kPairTestLimit = std::chrono::seconds(5);

// Exchanges small messages, and a large one in each direction, and compares all contents. Blocks,
// at most for `limit`.
proto::PairTestResult RunPairTest(const proto::PairTest& order, const std::string& secret,
                                  Duration limit = kPairTestLimit);

}  // namespace longhaul::service
