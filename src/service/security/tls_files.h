// The files of the controller's TLS: those in DIR/tls, which `longhaul controller init DIR` makes,
// or others that the controller's file names.
//
//   ca.crt, ca.key          the cluster's own authority, which signs the server's certificate
//   server.crt, server.key  the server's certificate and key
//   agents.crt, agents.key  the authority of agents' certificates; the controller makes it
//   peer.secret             the secret of copies of snapshots between agents
// Keys and the secret have mode 0600. Clients need ca.crt only.
#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "service/security/certificate.h"

namespace longhaul::service {

constexpr Duration kAuthorityValidity = std::chrono::hours(24 * 3650);
constexpr Duration kServerValidity = std::chrono::hours(24 * 365);

struct TlsPaths {
  std::string certificate;
  std::string key;
  std::string ca;
};

// The paths in a controller's folder.
TlsPaths OwnTlsPaths(const std::string& directory);

// What init has made.
struct TlsMade {
  bool new_authority = false;
  Instant server_until;
};
// Makes the server's certificate for these names and localhost, and the authority unless there is
// one. An existing server certificate is replaced.
Result<TlsMade> InitTls(const std::string& directory, std::span<const std::string> names,
                        Instant now);

// A server's certificate that has passed all checks.
struct ServerTls {
  std::string certificates;  // PEM: the server's own first, the authority's last
  std::string key;
  std::string ca;       // PEM
  std::string ca_file;  // absolute path, for endpoint.json
};
// Reads and checks the files: readable, the key private and the certificate's, signed by the
// authority, valid at `now`, and for each of the hosts. An error is one line with the file and the
// remedy.
Result<ServerTls> LoadServerTls(const TlsPaths& paths, std::span<const std::string> hosts,
                                Instant now);

// Reads the authority of agents' certificates; makes it if there is none.
Result<CertificateAndKey> AgentAuthority(const std::string& directory, Instant now);

// Reads the secret between agents; makes it if there is none.
Result<std::string> PeerSecret(const std::string& directory);

}  // namespace longhaul::service
