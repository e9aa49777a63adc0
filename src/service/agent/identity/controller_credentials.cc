#include "service/agent/identity/controller_credentials.h"

namespace longhaul::service {

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const AgentIdentity& identity) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = identity.authority;
  options.pem_cert_chain = identity.certificate;
  options.pem_private_key = identity.key;
  return grpc::SslCredentials(options);
}

std::string FailureOfCall(const grpc::Status& status) {
  std::string text = status.error_message();
  // gRPC has no code of its own for this.
  if (text.find("not in peer certificate") != std::string::npos) {
    text +=
        ": name a host of the controller's certificate with --controller, or make one for this "
        "host with longhaul controller init STATE_DIR --name HOST";
  }
  return text;
}

}  // namespace longhaul::service
