// The status of a LonghaulJob: its phase, conditions and numbers.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/time.h"
#include "engines/kubernetes/jobs/longhaul_job.h"

namespace longhaul::engines::kubernetes {

// As in the definition of the resource.
enum class JobPhase : uint8_t {
  kQueued,
  kPlaced,
  kRunning,
  kRestarting,
  kSuspended,
  kSucceeded,
  kFailed,
};
std::string_view PhaseName(JobPhase phase);

// What the controller of a job reports of it.
struct ControllerReport {
  std::set<std::string> connected;  // names of the workers whose agents are connected
  bool training = false;            // an attempt runs
  bool recovering = false;          // a fault is being handled
  uint64_t step = 0;
  uint64_t restarts = 0;
  double goodput = 0;  // 0 to 1
  std::string fault;   // the newest one, in words; empty: none
};

// What a job is found to be.
struct JobFacts {
  JobPhase phase = JobPhase::kQueued;
  std::string reason = "Unknown";  // one word, as conditions require
  std::string message;
  uint32_t ready = 0;    // worker pods that take part
  uint32_t desired = 0;  // worker pods that are kept
  uint64_t restarts = 0;
  double goodput = 0;
};

// A time of day as the API writes it, in seconds: 2026-01-31T08:00:00Z.
std::string ApiTime(Instant wall);

// The end of a job, which its status keeps for ever: kSucceeded, kFailed, or another phase.
bool IsFinished(const LonghaulJob& job);
// The phase that is stored, or kQueued.
JobPhase StoredPhase(const LonghaulJob& job);
uint64_t StoredRestarts(const LonghaulJob& job);
uint32_t StoredReady(const LonghaulJob& job);
double StoredGoodput(const LonghaulJob& job);

// The reason of a job that cannot be run as it is described. It is no end: a change of the spec is
// considered.
inline constexpr std::string_view kInvalidSpec = "InvalidSpec";

// Returns the status of a job with these facts. A condition whose status is the same as before
// keeps the time of its last change. `wall` is the present time of day.
JobJson StatusOf(const LonghaulJob& job, const JobFacts& facts, Instant wall);

// Whether the status says something new: a number of goodput alone does not.
bool IsNews(const JobJson& before, const JobJson& after);

// An event of the job. `kind` is Normal or Warning.
JobJson EventOf(const LonghaulJob& job, std::string_view kind, std::string_view reason,
                const std::string& note, Instant wall);

}  // namespace longhaul::engines::kubernetes
