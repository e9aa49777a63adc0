// The stages of a recovery: from a fault to the first new step. Pure.
#pragma once

#include <string>
#include <vector>

#include "proto/status.pb.h"

namespace longhaul::story {

struct FaultStage {
  std::string name;           // "detected"
  double at_seconds = 0;      // after the fault happened
  double took_seconds = 0;    // since the stage before
  double budget_seconds = 0;  // the time that it may take; 0: depends on the job
};

// The stages that the fault has reached, in order.
std::vector<FaultStage> StagesOf(const proto::Fault& fault);

}  // namespace longhaul::story
