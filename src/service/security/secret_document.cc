#include "service/security/secret_document.h"

#include "io/files/private_files.h"

namespace longhaul::service {

Result<std::string> SecretFile::Read(uint64_t limit) { return io::ReadPrivateText(path_, limit); }

Status SecretFile::Write(std::string_view text) { return io::WritePrivateText(path_, text); }

}  // namespace longhaul::service
