#include "engines/kubernetes/pod/pod_agent.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/text.h"
#include "engines/kubernetes/jobs/pod_templates.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "io/process/process.h"
#include "service/agent/agent_service.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr uint64_t kMostFile = 16'384;
constexpr Duration kLookPeriod = std::chrono::seconds(1);

// The files of the pod's volume, which the kubelet replaces together.
struct Place {
  std::string controller;
  std::string authority;
  friend bool operator==(const Place&, const Place&) = default;
};

Result<Place> ReadPlace(const std::string& folder) {
  Place place;
  ASSIGN_OR_RETURN(place.controller,
                   io::ReadText(folder + "/" + std::string(kControllerFile), kMostFile));
  ASSIGN_OR_RETURN(place.authority,
                   io::ReadText(folder + "/" + std::string(kAuthorityFile), kMostFile));
  place.controller = std::string(Trim(place.controller));
  if (place.controller.empty() || place.authority.empty()) {
    return FailedPrecondition("no controller is named in " + folder);
  }
  return place;
}

// A certificate of another controller's authority is of no use: the agent joins again.
void ForgetOther(const std::string& state_directory, const std::string& authority) {
  const std::string tls = state_directory + "/tls";
  const Result<std::string> known = io::ReadText(tls + "/ca.crt", kMostFile);
  if (!known.ok() || *known == authority) return;
  std::error_code error;
  std::filesystem::remove_all(tls, error);
}

// Ends the agent as a signal does, and sets `moved`, once the files name another controller.
void WatchPlace(const std::string& folder, const Place& place, std::atomic<bool>& moved) {
  std::thread([folder, place, &moved] {
    for (;;) {
      std::this_thread::sleep_for(kLookPeriod);
      const Result<Place> now = ReadPlace(folder);
      if (now.ok() && *now != place) break;
    }
    moved = true;
    ::kill(::getpid(), SIGTERM);
  }).detach();
}

int Refuse(const Status& why) {
  std::fprintf(stderr, "longhaul: kube agent: %s\n", why.message().c_str());
  return 1;
}

}  // namespace

int PodAgentMain(const PodAgentOptions& options) {
  const Result<Place> place = ReadPlace(options.pod_directory);
  if (!place.ok()) return Refuse(place.status());
  ForgetOther(options.state_directory, place->authority);
  service::AgentOptions agent;
  agent.controller = place->controller;
  agent.node = options.node;
  agent.slots = options.slots;
  agent.address = options.address;
  agent.state_directory = options.state_directory;
  agent.ca_file = options.pod_directory + "/" + std::string(kAuthorityFile);
  agent.join_token_file = options.token_file;
  agent.external_join_token = true;
  agent.copy_output = true;  // for kubectl logs
  if (const Result<std::string> folder = io::ProgramDirectory(); folder.ok()) {
    agent.snapshot_keeper = {*folder + "/longhaul", "snapshot-keeper"};
    agent.stack_reader = {*folder + "/longhaul", "stack-reader"};
  }
  // The pod says which user its container is; a training image is often root in its container.
  agent.allow_root = ::geteuid() == 0;
  // Signals to this process are the agent's, so the thread that looks at the files must not take
  // them: it is started with all of them blocked.
  static std::atomic<bool> moved = false;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  WatchPlace(options.pod_directory, *place, moved);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const int code = service::AgentMain(agent);
  return moved ? 1 : code;
}

}  // namespace longhaul::engines::kubernetes
