// Where the API server is, and a client of it, for the commands of `longhaul kube`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "engines/kubernetes/client/client.h"
#include "io/event_loop.h"

namespace longhaul::bin {

struct KubeAccessOptions {
  std::string kubeconfig;
  std::string context;
};

// Declares --kubeconfig and --context.
void AddKubeAccessOptions(CLI::App& command, KubeAccessOptions& options);

struct KubeConnection {
  std::unique_ptr<engines::kubernetes::Client> client;
  std::string namespace_name;  // of the account or the context
};
// `connections`: for binds, deletions and evictions. Requires that loop outlives the client.
Result<KubeConnection> ConnectKube(io::EventLoop& loop, const KubeAccessOptions& options,
                                   uint32_t connections);

}  // namespace longhaul::bin
