// What a run's report states about the whole run, taken from the controller's status. Pure.
#pragma once

#include "proto/status.pb.h"
#include "story/run_record.h"

namespace longhaul::story {

RunTotals TotalsOf(const proto::JobStatus& status);

}  // namespace longhaul::story
