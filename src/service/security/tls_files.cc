#include "service/security/tls_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "base/text.h"
#include "io/files/file.h"
#include "io/files/private_files.h"
#include "service/security/secret.h"

namespace longhaul::service {
namespace {

constexpr uint64_t kLargestTlsFile = 256 << 10;
constexpr const char* kInit = "longhaul controller init DIR --name HOST makes a new one";

std::string PathOf(const std::string& directory, const char* name) {
  return directory + "/tls/" + name;
}

// The key first: the controller takes the existence of a certificate for that of the whole pair
// (FindTls in controller_service.cc).
Status WriteBoth(const std::string& directory, const std::string& name,
                 const CertificateAndKey& both) {
  RETURN_IF_ERROR(io::WritePrivateText(PathOf(directory, (name + ".key").c_str()), both.key));
  return io::WritePrivateText(PathOf(directory, (name + ".crt").c_str()), both.certificate);
}

Result<CertificateAndKey> ReadBoth(const std::string& directory, const std::string& name) {
  CertificateAndKey both;
  ASSIGN_OR_RETURN(both.certificate,
                   io::ReadText(PathOf(directory, (name + ".crt").c_str()), kLargestTlsFile));
  ASSIGN_OR_RETURN(
      both.key, io::ReadPrivateText(PathOf(directory, (name + ".key").c_str()), kLargestTlsFile));
  return both;
}

// Reads an authority, or makes it. `made` reports which.
Result<CertificateAndKey> ReadOrMakeAuthority(const std::string& directory, const std::string& name,
                                              const std::string& title, Instant now, bool& made) {
  Result<CertificateAndKey> known = ReadBoth(directory, name);
  // Only an absent authority is made. One that cannot be read stays an error, because a new one
  // would make all issued certificates invalid.
  made = !known.ok() && known.status().code() == Code::kNotFound;
  if (!made) return known;
  ASSIGN_OR_RETURN(const CertificateAndKey fresh, MakeAuthority(title, now, kAuthorityValidity));
  RETURN_IF_ERROR(WriteBoth(directory, name, fresh));
  return fresh;
}

// The mode is set in any case, whatever the umask or an earlier version has left.
Status MakeDirectory(const std::string& directory) {
  const std::string path = directory + "/tls";
  RETURN_IF_ERROR(io::PosixFileSystem().MakeDirectories(path));
  std::error_code error;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all, error);
  return error ? InternalError("cannot make " + path + " private: " + error.message()) : Status();
}

// An address that means all interfaces is no name that a client connects to, so no certificate
// needs it.
Status CheckHosts(const TlsPaths& paths, const std::string& certificate,
                  std::span<const std::string> hosts) {
  for (const std::string& host : hosts) {
    if (host == "0.0.0.0" || host == "::" || IsForHost(certificate, host)) continue;
    ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(certificate));
    return InvalidArgument("the certificate " + paths.certificate + " is for " +
                           Printable(Join(facts.names, ", "), 200) + ", not for " + host + ": " +
                           kInit);
  }
  return {};
}

}  // namespace

TlsPaths OwnTlsPaths(const std::string& directory) {
  return {PathOf(directory, "server.crt"), PathOf(directory, "server.key"),
          PathOf(directory, "ca.crt")};
}

Result<TlsMade> InitTls(const std::string& directory, std::span<const std::string> names,
                        Instant now) {
  std::vector<std::string> all(names.begin(), names.end());
  // Commands on the controller's own machine connect to it by these names.
  for (const char* local : {"localhost", "127.0.0.1", "::1"}) {
    if (std::find(all.begin(), all.end(), local) == all.end()) all.emplace_back(local);
  }
  RETURN_IF_ERROR(MakeDirectory(directory));
  TlsMade made;
  ASSIGN_OR_RETURN(
      const CertificateAndKey authority,
      ReadOrMakeAuthority(directory, "ca", "longhaul authority", now, made.new_authority));
  ASSIGN_OR_RETURN(const CertificateAndKey server,
                   MakeServerCertificate(authority, all, now, kServerValidity));
  RETURN_IF_ERROR(WriteBoth(directory, "server", server));
  made.server_until = now + kServerValidity;
  return made;
}

Result<ServerTls> LoadServerTls(const TlsPaths& paths, std::span<const std::string> hosts,
                                Instant now) {
  ServerTls loaded;
  ASSIGN_OR_RETURN(loaded.certificates, io::ReadText(paths.certificate, kLargestTlsFile));
  ASSIGN_OR_RETURN(loaded.key, io::ReadPrivateText(paths.key, kLargestTlsFile));
  ASSIGN_OR_RETURN(loaded.ca, io::ReadText(paths.ca, kLargestTlsFile));
  const Result<CertificateFacts> facts = ReadCertificate(loaded.certificates);
  if (!facts.ok()) return facts.status().WithContext(paths.certificate);
  const Status same = CheckKey(loaded.certificates, loaded.key);
  if (!same.ok()) return same.WithContext(paths.key + " and " + paths.certificate);
  const Status verified = VerifyServer(loaded.certificates, loaded.ca, now);
  if (!verified.ok()) {
    return InvalidArgument("the certificate " + paths.certificate + " (valid until " +
                           ToString(facts->not_after) + ") with the authority " + paths.ca + ": " +
                           verified.message() + "; " + kInit);
  }
  RETURN_IF_ERROR(CheckHosts(paths, loaded.certificates, hosts));
  // The authority is sent along, so that a joining agent, which does not have it yet, can compare
  // its fingerprint.
  loaded.certificates += "\n" + loaded.ca;
  std::error_code error;
  loaded.ca_file = std::filesystem::absolute(paths.ca, error).string();
  return loaded;
}

Result<CertificateAndKey> AgentAuthority(const std::string& directory, Instant now) {
  RETURN_IF_ERROR(MakeDirectory(directory));
  bool made = false;
  return ReadOrMakeAuthority(directory, "agents", "longhaul agents", now, made);
}

Result<std::string> PeerSecret(const std::string& directory) {
  const std::string path = PathOf(directory, "peer.secret");
  const Result<std::string> known = io::ReadPrivateText(path, kLargestTlsFile);
  if (known.ok()) return std::string(Trim(*known));
  if (known.status().code() != Code::kNotFound) return known.status();
  ASSIGN_OR_RETURN(const std::string secret, MakeSecret("lhp_"));
  RETURN_IF_ERROR(io::WritePrivateText(path, secret + "\n"));
  return secret;
}

}  // namespace longhaul::service
