// The credentials of gRPC channels to the controller, and what follows from them.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

#include "service/agent/identity/agent_identity.h"

namespace longhaul::service {

// Returns TLS that verifies the controller with the identity's authority and presents its
// certificate, if it has one.
std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const AgentIdentity& identity);

// Returns why a call to the controller failed, with the remedy if the controller's certificate is
// for another host.
std::string FailureOfCall(const grpc::Status& status);

}  // namespace longhaul::service
