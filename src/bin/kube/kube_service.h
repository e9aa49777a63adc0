// What the long-running commands of `longhaul kube` have in common: access to the API server, an
// election of the instance that works, an orderly end.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "bin/kube/kube_access.h"
#include "engines/kubernetes/client/client.h"
#include "io/event_loop.h"

namespace longhaul::bin {

// What the leading instance runs.
class KubeService {
 public:
  virtual ~KubeService() = default;
  // Decides nothing more; replies that are on their way are still awaited.
  virtual void Drain() = 0;
  virtual bool idle() const = 0;
};

struct KubeServiceOptions {
  KubeServiceOptions(std::string of_command, std::string of_lease)
      : command(std::move(of_command)), lease_name(std::move(of_lease)) {}

  std::string command;     // "schedule", for its log
  std::string lease_name;  // of the election
  KubeAccessOptions access;
  uint32_t connections = 16;
  bool elects = true;
  std::string lease_namespace;
};

// Declares --kubeconfig, --context and those of the election.
void AddKubeServiceOptions(CLI::App& command, KubeServiceOptions& options);

using KubeLog = std::function<void(const std::string& line)>;
using MakeKubeService = std::function<std::unique_ptr<KubeService>(
    io::EventLoop& loop, engines::kubernetes::Client& client, std::function<bool()> leads,
    KubeLog log)>;

// Runs until SIGTERM or SIGINT, or until the lease is lost, which is an error.
Status RunKubeService(const KubeServiceOptions& options, const MakeKubeService& make);

}  // namespace longhaul::bin
