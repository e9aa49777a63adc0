// POST /v1/jobs/{id}/stop: {"reason"?, "seen"?}.
//
// "seen" is the id of the last event that the caller knows, as a text, because an id may be too
// large for a number of JavaScript. With it, a job is stopped only if it still is in the state and
// attempt that the caller has seen: steps, snapshots and faults alone change neither. It is checked
// twice, because a job can change meanwhile: against the log, and, on the loop's thread, against
// the core right before the stop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "service/controller/core_loop.h"
#include "service/controller/log/notification_feed.h"

namespace longhaul::service {

struct StopRequest {
  std::string reason;
  std::optional<uint64_t> seen;  // absent: whatever the state is
};

// Returns kInvalidArgument with the key, the value and the expected form.
Result<StopRequest> ParseStop(std::string_view body);

// Stops a job, or all elements of an array. A job that is over is no error: a client may repeat a
// stop whose answer was lost. With `seen`: kAborted if the job has changed since, or if too much
// has happened since to find out, and kInvalidArgument for an array and for an event of the future.
Status StopJob(CoreLoop& loop, NotificationFeed& feed, const proto::JobStatus& job,
               const StopRequest& request);

}  // namespace longhaul::service
