#include "engines/kubernetes/pod/job_authority.h"

#include <filesystem>
#include <fstream>

#include "io/clock.h"
#include "io/files/file.h"
#include "io/files/private_files.h"
#include "service/security/tls_files.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr uint64_t kMostCertificate = 16'384;
// What the kubelet publishes of a termination message.
constexpr size_t kMostMessage = 4'096;

}  // namespace

Status MakeJobAuthority(const JobAuthorityOptions& options) {
  io::MakeFilesPrivate();
  RETURN_IF_ERROR(io::PosixFileSystem().MakeDirectories(options.state_directory));
  const std::string names[] = {options.address};
  RETURN_IF_ERROR(service::InitTls(options.state_directory, names, io::Now()).status());
  const std::string path = service::OwnTlsPaths(options.state_directory).ca;
  ASSIGN_OR_RETURN(const std::string certificate, io::ReadText(path, kMostCertificate));
  if (certificate.size() > kMostMessage) {
    return InternalError("the authority's certificate has " + std::to_string(certificate.size()) +
                         " bytes, and the kubelet publishes " + std::to_string(kMostMessage));
  }
  // Not replaced by another file: the kubelet has mounted this one.
  std::ofstream file(options.publish, std::ios::trunc);
  file << certificate << std::flush;
  if (!file) return Unavailable("cannot write " + options.publish);
  return {};
}

}  // namespace longhaul::engines::kubernetes
