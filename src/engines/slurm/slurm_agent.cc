#include "engines/slurm/slurm_agent.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/text.h"
#include "engines/slurm/lost_controller.h"
#include "engines/slurm/slurm_launcher.h"
#include "engines/slurm/slurm_text.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "io/net/socket.h"
#include "service/agent/agent_service.h"
#include "service/client/endpoint.h"

namespace longhaul::engines::slurm {
namespace {

constexpr Duration kLookPeriod = std::chrono::seconds(1);
// Shared storage may show a file of another node late.
constexpr Duration kFileLimit = std::chrono::minutes(2);
// A controller that has died is started again within seconds, on the same port.
constexpr Duration kControllerLimit = std::chrono::minutes(1);
constexpr Duration kConnectPeriod = std::chrono::seconds(5);

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

bool Await(const std::string& path) {
  const Instant deadline = io::MonotonicNow() + kFileLimit;
  while (!Exists(path)) {
    if (io::MonotonicNow() > deadline) return false;
    std::this_thread::sleep_for(kLookPeriod);
  }
  return true;
}

// "10.0.0.1" of "10.0.0.1:8701" and "::1" of "[::1]:8701".
std::string HostOfAddress(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

// Ends the agent as a signal does, which also leaves time for a last snapshot.
void WatchMarks(const std::string& fence, const std::string& ended) {
  std::thread([fence, ended] {
    while (!Exists(fence) && !Exists(ended)) std::this_thread::sleep_for(kLookPeriod);
    ::kill(::getpid(), SIGTERM);
  }).detach();
}

void WatchController(const std::string& address, const Place& place,
                     const std::string& run_directory) {
  std::thread([address, place, run_directory] {
    const Result<int64_t> port = ParseInt64(address.substr(address.rfind(':') + 1));
    if (!port.ok()) return;
    Instant reached = io::MonotonicNow();
    LostController next = LostController::kTryAgain;
    while (next == LostController::kTryAgain) {
      while (io::MonotonicNow() - reached < kControllerLimit) {
        std::this_thread::sleep_for(kConnectPeriod);
        if (Exists(EndedPath(run_directory))) return;
        const auto connection =
            io::ConnectTcp(HostOfAddress(address), static_cast<uint16_t>(*port));
        if (connection.ok()) reached = io::MonotonicNow();
      }
      reached = io::MonotonicNow();
      next = GiveUpController(address, place.job, run_directory);
    }
    if (next == LostController::kEnd) ::kill(::getpid(), SIGTERM);
  }).detach();
}

int Refuse(const std::string& why) {
  std::fprintf(stderr, "longhaul: slurm agent: %s\n", why.c_str());
  return 1;
}

}  // namespace

int SlurmAgentMain(const SlurmAgentOptions& options) {
  const Place place = {Environment("SLURMD_NODENAME"), Environment("SLURM_JOB_ID")};
  if (place.node.empty() || place.job.empty()) {
    return Refuse("SLURMD_NODENAME or SLURM_JOB_ID is not set: it is started by srun");
  }
  const std::string endpoint_path = EndpointPath(options.run_directory);
  if (!Await(endpoint_path)) return Refuse("no controller wrote " + endpoint_path);
  const Result<service::Endpoint> endpoint = service::ReadEndpoint(endpoint_path);
  if (!endpoint.ok()) return Refuse(endpoint.status().message());
  const Result<std::string> address = io::LocalAddressTowards(HostOfAddress(endpoint->agents));
  if (!address.ok()) return Refuse(address.status().message());

  service::AgentOptions agent;
  agent.controller = endpoint->agents;
  agent.node = AgentNameOf(place.node);
  agent.slots = options.slots;
  agent.address = *address;
  agent.snapshot_keeper = {"/proc/self/exe", "snapshot-keeper"};
  agent.stack_reader = {"/proc/self/exe", "stack-reader"};
  // Slurm has started this process as the user who submitted the job.
  agent.allow_root = true;
  if (endpoint->ca_file.empty()) {
    agent.token_file = endpoint->token_file;
  } else {
    agent.join_token_file = JoinTokenPath(options.run_directory, place.node);
    agent.ca_file = endpoint->ca_file;
    if (!Await(agent.join_token_file)) {
      return Refuse("the controller wrote no " + agent.join_token_file);
    }
  }
  // On the node's own disk, and the same for a later agent in this job, which adopts the snapshots
  // that are still in memory.
  const std::string temporary = Environment("TMPDIR").empty() ? "/tmp" : Environment("TMPDIR");
  agent.state_directory =
      temporary + "/longhaul-" + std::to_string(::getuid()) + "-" + place.job + "-" + agent.node;
  // Signals to this process are the agent's, so the thread that looks at the marks must not take
  // them: it is started with all of them blocked.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  WatchMarks(FencePath(options.run_directory, place), EndedPath(options.run_directory));
  WatchController(endpoint->agents, place, options.run_directory);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const int code = service::AgentMain(agent);
  std::error_code error;
  std::filesystem::remove_all(agent.state_directory, error);
  return code;
}

}  // namespace longhaul::engines::slurm
