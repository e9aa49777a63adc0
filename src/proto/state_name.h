// The names of a job's states in all output for people.
#pragma once

#include <string_view>

#include "proto/status.pb.h"

namespace longhaul::proto {

// "queued", "running", ...; "preparing" before the first state and for one that is unknown.
std::string_view StateName(JobState state);

}  // namespace longhaul::proto
