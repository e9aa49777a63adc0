// The credentials of gRPC channels to the controller.
#pragma once

#include <grpcpp/security/credentials.h>

#include <memory>

#include "service/agent/identity/agent_identity.h"

namespace longhaul::service {

// Returns TLS that verifies the controller with the identity's authority and presents its
// certificate, if it has one.
std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const AgentIdentity& identity);

}  // namespace longhaul::service
