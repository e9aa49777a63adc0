#include "service/controller/token.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "io/fd.h"
#include "service/client/endpoint.h"
#include "service/security/secret.h"

namespace longhaul::service {

Result<std::string> ReadOrMakeToken(const std::string& path) {
  const io::Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid() && errno == EEXIST) return ReadToken(path);
  if (!file.valid()) return FromErrno(errno, "cannot create the token file " + path);
  const Result<std::string> made = MakeSecret("");
  if (!made.ok()) {
    ::unlink(path.c_str());
    return made.status();
  }
  const std::string& token = *made;
  const std::string line = token + "\n";
  const ssize_t written = ::write(file.get(), line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) {
    const int error = written < 0 ? errno : ENOSPC;
    ::unlink(path.c_str());
    return FromErrno(error, "cannot write the token file " + path);
  }
  return token;
}

}  // namespace longhaul::service
