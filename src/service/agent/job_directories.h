// Where an agent keeps the files of jobs, and how it lets the workers' user reach them.
#pragma once

#include <string>

#include "base/status.h"
#include "io/process/user_account.h"
#include "proto/commands.pb.h"

namespace longhaul::service {

// The folder of a job's logs and checkpoints: the job's own, or else one in the state directory.
std::string RunDirectory(const std::string& state_directory, const proto::StartWorkers& start);
std::string CheckpointDirectoryOf(const std::string& state_directory,
                                  const proto::StartWorkers& start);

// Lets the workers' user pass through the state directory, to the sockets and to the folders of
// jobs, which it owns. What else is there remains closed to it.
Status OpenToWorkers(const std::string& state_directory, const io::UserAccount& user);

}  // namespace longhaul::service
