// Hides the values of a job's environment, which may be secrets.
//
// The controller stores the values (in events.db and in memory), because it starts workers again.
// Responses, notifications, reports and logs show the variables' names with kRedacted as value.
// Only a client that requests the values, with the token, receives them.
#pragma once

#include "proto/job.pb.h"

namespace longhaul::service {

inline constexpr char kRedacted[] = "<redacted>";

// Replaces the values in the job: in its workload, and in its job file.
void RedactEnvironment(proto::Job& job);

// The same for every job in a message of any type.
void RedactJobs(google::protobuf::Message& message);

}  // namespace longhaul::service
