// Gets the certificate of a controller's authority from the controller itself.
//
// The controller sends its authority in TLS, behind its own certificate. It is not trusted for
// that: the caller knows its fingerprint from a join token. Nothing is sent to the controller but
// the handshake.
#pragma once

#include <string>

#include "base/status.h"

namespace longhaul::service {

// Connects to "HOST:PORT" and returns the certificate with this fingerprint, in PEM. Returns
// kUnauthenticated if the controller sends none with it, and kUnavailable if it does not answer.
Result<std::string> FetchAuthority(const std::string& address, const std::string& fingerprint);

}  // namespace longhaul::service
