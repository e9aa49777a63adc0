// The exchange with a credential plug-in: client.authentication.k8s.io/v1.
//
// A plug-in is a program. It gets a document in the environment variable KUBERNETES_EXEC_INFO and
// prints a document with a token or a client certificate. Pure. Errors contain no secret.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "engines/kubernetes/protocol/access/kubeconfig.h"
#include "engines/kubernetes/protocol/objects/json_parser.h"
#include "engines/kubernetes/protocol/objects/padded_text.h"

namespace longhaul::engines::kubernetes {

// What a request authenticates with. All empty: anonymous.
struct Credential {
  std::string token;
  std::string client_certificate;  // PEM
  std::string client_key;          // PEM
  std::optional<Instant> expires_at;
};

// The value of KUBERNETES_EXEC_INFO. `certificate_authority` is PEM text.
std::string ExecInfo(const Kubeconfig& config, const std::string& certificate_authority);

// Reads what the plug-in printed. `command` names it in errors. kInvalidArgument when the document
// is of another version, or has neither a token nor a certificate with its key.
Result<Credential> ReadExecCredential(JsonParser& parser, PaddedText output,
                                      const std::string& command);

}  // namespace longhaul::engines::kubernetes
