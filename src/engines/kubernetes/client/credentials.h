// Where the credentials of a client come from: a fixed value, a token file, or an exec plug-in.
//
// All calls and callbacks are on the loop's thread. Nothing blocks, except reading a token file,
// which is small and local. Errors contain no secret.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "engines/kubernetes/client/http_client.h"
#include "engines/kubernetes/protocol/access/exec_credential.h"
#include "engines/kubernetes/protocol/access/kubeconfig.h"
#include "io/event_loop.h"

namespace longhaul::engines::kubernetes {

class CredentialSource {
 public:
  // Shared with the requests that use them.
  using Shared = std::shared_ptr<const Credential>;
  using Done = std::function<void(Result<Shared>)>;

  virtual ~CredentialSource() = default;
  // Calls `done` with the credentials, before it returns or later.
  virtual void Get(Done done) = 0;
  // The API server has refused `used` (401). The next Get reads the credentials again, unless that
  // has happened since `used` was read.
  virtual void Refused(const Shared& used) = 0;
};

std::unique_ptr<CredentialSource> FixedCredentials(Credential credential);

// A bearer token in a file, which is read again after `age` and after a refusal.
std::unique_ptr<CredentialSource> TokenFileCredentials(std::string path,
                                                       Duration age = std::chrono::minutes(1));

struct ExecSettings {
  ExecPlugin plugin;
  std::string exec_info;                           // KUBERNETES_EXEC_INFO
  std::map<std::string, std::string> environment;  // of this process
  Duration limit = std::chrono::seconds(60);       // for one run of the program
};
// Runs a plug-in when there are no credentials, when they are about to expire, and after a refusal.
// A refusal within five seconds of a run does not run it again: it would give the same answer.
// Requires that `loop` outlives the source.
std::unique_ptr<CredentialSource> ExecCredentials(io::EventLoop& loop, ExecSettings settings);

// How to reach an API server.
struct Access {
  HttpSettings http;
  std::unique_ptr<CredentialSource> credentials;
  std::string namespace_name;
};

// Inside of a pod: the address from the environment, token and authority from the mounted folder.
// kFailedPrecondition when this is no pod.
constexpr std::string_view kServiceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";
Result<Access> InClusterAccess(const std::map<std::string, std::string>& environment,
                               const std::string& folder);

// From a kubeconfig file; `context` empty: the current one.
Result<Access> KubeconfigAccess(io::EventLoop& loop, const std::string& path,
                                const std::string& context);

}  // namespace longhaul::engines::kubernetes
