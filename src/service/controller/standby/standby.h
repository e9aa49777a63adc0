// A controller that stands by: it follows the shared event log until it leads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "service/controller/core_loop.h"
#include "service/controller/standby/leadership.h"
#include "service/controller/standby/postgres_log.h"

namespace longhaul::service {

struct StandbyOptions {
  // Blocks for this long, or until the process is to end; returns whether it is. Must not be empty.
  std::function<bool(Duration)> await_end;
  // Called once another controller turns out to lead, with its name. May be empty.
  std::function<void(const std::string& leader)> on_standby;
  // Leadership::Keep.
  std::function<void(const Status&)> on_lost;
};

// Applies the events of the log to the loop's core as the leader appends them, until this
// controller leads. Then the core has all events, and no controller of an earlier term can append
// another one. Returns the term; kCancelled when the process is to end.
Result<uint64_t> AwaitLeadership(const StandbyOptions& options, Leadership& leadership,
                                 PostgresLog& log, CoreLoop& loop);

// "HOST (process PID)", for people.
std::string HolderName();

}  // namespace longhaul::service
