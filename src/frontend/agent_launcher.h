// Agents of a run that another system starts, on its machines: Slurm, for example.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "io/event_loop.h"
#include "service/client/endpoint.h"

namespace longhaul::frontend {

// Until all agents of a cluster have joined that are started at once.
inline constexpr Duration kUsualAgentsLimit = std::chrono::seconds(20);

// All calls come from the thread of the loop. The launcher outlives the run.
class AgentLauncher {
 public:
  virtual ~AgentLauncher() = default;

  // The address of this machine that the agents reach: the controller listens there.
  virtual std::string address() const = 0;

  // Called once, before the controller starts. `directory` will be its state directory.
  virtual Status Prepare(const std::string& directory) = 0;

  // The words that start the controller, the program's name first, and the port at which it listens
  // for REST; the agents' port is the next one. 0: any.
  virtual std::vector<std::string> ControllerWords() const { return {"longhaul", "controller"}; }
  virtual uint16_t rest_port() const { return 0; }

  // Whether the controller's state of an earlier front end of this run is used again, and whether
  // its job is this one. The agents have lived on, and the job with them. None: a new cluster.
  enum class EarlierCluster : uint8_t { kNone, kSameJob, kOtherJob };
  virtual EarlierCluster earlier_cluster() const { return EarlierCluster::kNone; }

  // How many agents the job waits for before it is submitted, however long that takes. None: all,
  // for agents_limit(), because they are started at once.
  virtual std::optional<uint32_t> awaited_agents() const { return std::nullopt; }
  virtual Duration agents_limit() const { return kUsualAgentsLimit; }

  // Returns the command (argv) that starts the agents and ends when they have ended; empty: they
  // come by themselves. Called when the controller answers for the first time, and when the command
  // has ended before the run.
  virtual Result<std::vector<std::string>> Command(const service::Endpoint& endpoint) = 0;

  // Follows the machines from now on, until End. `show` prints a line for the user.
  virtual void Begin(io::EventLoop& loop, std::function<void(const std::string& text)> show) = 0;
  // The run ends, or has failed: gives back what was taken. May be called more than once.
  virtual void End() = 0;
};

}  // namespace longhaul::frontend
