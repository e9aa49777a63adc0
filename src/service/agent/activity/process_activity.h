// Reads from /proc what the processes of workers do.
//
// Processes end while they are read: what has ended is left out, and no read is an error.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string_view>

#include "service/agent/activity/activity.h"

namespace longhaul::service {

// The number after `name` (with its colon) at the beginning of a line, as in /proc/PID/io and
// /proc/PID/status; 0 when there is none.
uint64_t NumberOfLine(std::string_view text, std::string_view name);

// The bytes that all interfaces but the loopback one have received and sent, of /proc/PID/net/dev.
uint64_t NetworkBytes(std::string_view text);

// One pass over all processes of the machine: a sample for each of these sessions, without its
// output. A session without a process has an empty sample.
std::map<pid_t, ActivitySample> SampleSessions(const std::set<pid_t>& sessions);

}  // namespace longhaul::service
