// Why a job waits: the functions behind Scheduler::Explain and Scheduler::WaitText.
#pragma once

#include <string>

#include "base/status.h"
#include "scheduler/explanation.h"
#include "scheduler/internal/scheduler_core.h"

namespace longhaul::scheduler::internal {

// Returns why a job is not running, and what would start it. Every fix is tried out on a copy of
// `core`. Refuses unknown jobs (kNotFound).
Result<Explanation> Explain(const SchedulerCore& core, const JobId& job, Instant now,
                            const Changeable& means);

// Returns in a few words why a job waited when it was last tried; empty when it does not wait.
std::string WaitText(const SchedulerState& state, const JobId& job);

}  // namespace longhaul::scheduler::internal
