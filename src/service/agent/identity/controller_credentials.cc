#include "service/agent/identity/controller_credentials.h"

namespace longhaul::service {

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const AgentIdentity& identity) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = identity.authority;
  options.pem_cert_chain = identity.certificate;
  options.pem_private_key = identity.key;
  return grpc::SslCredentials(options);
}

}  // namespace longhaul::service
