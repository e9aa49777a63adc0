// What of a job is not shown: the values of its environment, which may be secrets.
//
// The controller keeps them (events.db, and its memory) because it starts workers again; answers,
// notifications, reports and logs show the variables' names with kRedacted as value. Only a client
// that asks for them, with the token, gets the values.
#pragma once

#include "proto/job.pb.h"

namespace longhaul::service {

inline constexpr char kRedacted[] = "<redacted>";

// Takes the values out of the job: of its workload, and of the job file in it.
void RedactEnvironment(proto::Job& job);

// The same for every job in a message of any type.
void RedactJobs(google::protobuf::Message& message);

}  // namespace longhaul::service
