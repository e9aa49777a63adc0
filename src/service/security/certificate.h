// X.509 certificates of a cluster: an authority, the controller's server certificate, and client
// certificates of agents (RFC 5280), all ECDSA with the curve P-256.
//
// Everything is PEM text. An agent's certificate has its node's name as common name and is usable
// for clients only; a server's has its names and addresses as subject alternative names and is
// usable for servers only. So neither can stand for the other.
// Pure but for the random numbers of keys and serial numbers, which OpenSSL makes. The time is an
// argument. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace longhaul::service {

struct CertificateAndKey {
  std::string certificate;
  std::string key;
};

struct CertificateFacts {
  std::string common_name;
  std::vector<std::string> names;  // alternative names: DNS names and addresses
  Instant not_before;
  Instant not_after;
  uint64_t generation = 0;  // of an agent's certificate
};

// Clocks of two machines may differ: a new certificate is valid from so long before `now`.
constexpr Duration kClockDifference = std::chrono::minutes(5);

// Makes an authority that signs itself.
Result<CertificateAndKey> MakeAuthority(const std::string& name, Instant now, Duration validity);

// Makes a server certificate for these DNS names and addresses. Requires at least one.
Result<CertificateAndKey> MakeServerCertificate(const CertificateAndKey& authority,
                                                std::span<const std::string> names, Instant now,
                                                Duration validity);

// Makes a new private key.
Result<std::string> MakeKey();

// Makes a certificate request with this key. It proves that its maker has the key; the names in the
// certificate are the signer's choice.
Result<std::string> MakeRequest(const std::string& key);

// Returns a client certificate of the node for the key of a request. Refuses a request that is
// damaged or not signed by its key, and keys other than P-256. The certificate contains the
// generation, by which those from before a revocation are recognised (join_table.h).
Result<std::string> SignRequest(const CertificateAndKey& authority, const std::string& request,
                                const std::string& node, Instant now, Duration validity,
                                uint64_t generation = 0);

// Reads the first certificate of a text.
Result<CertificateFacts> ReadCertificate(const std::string& certificate);

// Returns the node whose client certificate this is; kUnauthenticated if the authority did not sign
// it, it is expired or not yet valid at `now`, or it is no client's.
Result<std::string> VerifyClient(const std::string& certificate, const std::string& authority,
                                 Instant now);

// Returns an error unless the first of these certificates is a server's that the authority signed,
// directly or through the others, and is valid at `now`.
Status VerifyServer(const std::string& certificates, const std::string& authority, Instant now);

// Returns an error unless the key is the one of the certificate.
Status CheckKey(const std::string& certificate, const std::string& key);

// Whether the certificate is for this DNS name or address.
bool IsForHost(const std::string& certificate, const std::string& host);

// Returns the SHA-256 of the first certificate of a text, in hex.
Result<std::string> Fingerprint(const std::string& certificate);

}  // namespace longhaul::service
