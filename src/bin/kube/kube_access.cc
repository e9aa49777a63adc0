#include "bin/kube/kube_access.h"

#include <unistd.h>

#include <map>
#include <utility>

#include "io/clock.h"

namespace longhaul::bin {
namespace {

namespace kubernetes = engines::kubernetes;

std::map<std::string, std::string> Environment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) environment[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return environment;
}

// A file that was named first; then the pod's own account; then the user's usual file.
Result<kubernetes::Access> FindAccess(io::EventLoop& loop, const KubeAccessOptions& options) {
  const std::map<std::string, std::string> environment = Environment();
  const auto variable = [&environment](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  std::string path = options.kubeconfig.empty() ? variable("KUBECONFIG") : options.kubeconfig;
  if (path.empty() && environment.contains("KUBERNETES_SERVICE_HOST")) {
    return kubernetes::InClusterAccess(environment, std::string(kubernetes::kServiceAccountFolder));
  }
  if (path.empty()) path = variable("HOME") + "/.kube/config";
  return kubernetes::KubeconfigAccess(loop, path, options.context);
}

}  // namespace

void AddKubeAccessOptions(CLI::App& command, KubeAccessOptions& options) {
  command.add_option("--kubeconfig", options.kubeconfig,
                     "File with the address and the credentials; default: $KUBECONFIG, the pod's "
                     "account, ~/.kube/config");
  command.add_option("--context", options.context, "Context of that file");
}

Result<KubeConnection> ConnectKube(io::EventLoop& loop, const KubeAccessOptions& options,
                                   uint32_t connections) {
  ASSIGN_OR_RETURN(kubernetes::Access access, FindAccess(loop, options));
  KubeConnection connection;
  connection.namespace_name = access.namespace_name;
  kubernetes::ClientSettings settings;
  settings.traffic.limits[0].in_progress = connections;
  settings.seed = static_cast<uint64_t>(ToNanoseconds(io::Now())) ^ static_cast<uint64_t>(getpid());
  ASSIGN_OR_RETURN(connection.client,
                   kubernetes::Client::Create(loop, std::move(access), settings));
  return connection;
}

}  // namespace longhaul::bin
