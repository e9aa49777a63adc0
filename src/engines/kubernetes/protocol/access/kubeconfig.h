// Reads a kubeconfig file: which API server, and which credentials.
//
// Supports contexts, clusters (server, certificate-authority, its data, tls-server-name, proxy-url)
// and users with client certificates (as files or data), token, tokenFile and exec plug-ins.
// Refuses what would weaken or fail the connection: insecure-skip-tls-verify except for a loopback
// address, username and password, and auth-provider (both were removed from Kubernetes). Pure:
// files that it names are not opened here. No error text contains a secret.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::engines::kubernetes {

// A command that prints credentials (client.authentication.k8s.io/v1).
struct ExecPlugin {
  std::string command;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  // in addition to ours
  bool provide_cluster_info = false;
  std::string install_hint;
};

// A PEM text, or the file that has it.
struct PemSource {
  std::string text;
  std::string path;
  bool empty() const { return text.empty() && path.empty(); }
};

struct Kubeconfig {
  std::string context;
  std::string namespace_name = "default";

  std::string server;  // "https://host:port", without a slash at the end
  PemSource certificate_authority;
  std::string tls_server_name;         // empty: the host of `server`
  bool skip_tls_verification = false;  // loopback only
  std::string proxy_url;

  PemSource client_certificate;
  PemSource client_key;
  std::string token;
  std::string token_file;
  std::optional<ExecPlugin> exec;
};

// Reads the context named `context`, or the current one where that is empty. `path` is the file's
// path: errors name it, and relative paths in the file are relative to its folder. An error names
// the file, the key, the value where it is no secret, and the remedy.
Result<Kubeconfig> ParseKubeconfig(std::string_view text, const std::string& path,
                                   std::string_view context);

}  // namespace longhaul::engines::kubernetes
