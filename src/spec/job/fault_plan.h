// `--inject`: injects faults, to test whether a job survives them.
//
//   plan   = fault *( ";" fault )
//   fault  = ( "kill" ( "worker" RANK | ( "agent" | "node" ) NODE | "controller" )
//            | "stop" "worker" RANK "for" DURATION ) "at" "step" STEP
//
// A worker is named by its rank, from 0; an agent and a node by their number, from 1, as in the
// node's name (node-1). With an agent its workers die, but their snapshots in memory survive; with
// a node these are lost too. Example: "kill worker 1 at step 40; kill agent 2 at step 90".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace longhaul::spec {

enum class FaultKind { kKillWorker, kKillAgent, kKillNode, kKillController, kStopWorker };

struct PlannedFault {
  FaultKind kind = FaultKind::kKillWorker;
  uint32_t target = 0;  // rank, or number of the agent or node less one (its node rank)
  uint64_t step = 0;    // happens once this step has been reported; at least 1
  Duration duration{};  // kStopWorker only

  friend bool operator==(const PlannedFault&, const PlannedFault&) = default;
};

Result<std::vector<PlannedFault>> ParseFaultPlan(std::string_view text);
std::string ToString(const PlannedFault& fault);  // in the grammar above

}  // namespace longhaul::spec
