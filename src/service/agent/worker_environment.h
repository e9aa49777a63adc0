// The environment of a worker's process.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "runtime/agent/agent_messages.h"

namespace longhaul::service {

inline constexpr char kSocketVariable[] = "LONGHAUL_AGENT_SOCKET";

// What the agent adds to the order.
struct WorkerSettings {
  std::string error_file;         // of torchrun's @record
  std::string worker_api;         // the socket
  std::string library;            // liblonghaul.so; empty: none
  std::string python_packages;    // a folder; empty: none
  std::string network_interface;  // that has the agent's address; empty: not known, or loopback
};

// What torchrun gives its workers, the variables of the job's workload, and Longhaul's own, on top
// of the environment of this process.
Result<std::map<std::string, std::string>> EnvironmentOfWorker(const runtime::SpawnWorker& order,
                                                               const WorkerSettings& settings);

// Entries of the environment that the processes of one worker have and no others of this agent:
// its socket, which is the one of its attempt, and its rank. They tell which processes are the
// worker's.
std::vector<std::string> MarkOf(const std::map<std::string, std::string>& environment);

}  // namespace longhaul::service
