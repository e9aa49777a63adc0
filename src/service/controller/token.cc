#include "service/controller/token.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "io/fd.h"
#include "service/client/endpoint.h"

namespace longhaul::service {

Result<std::string> ReadOrMakeToken(const std::string& path) {
  const io::Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid() && errno == EEXIST) return ReadToken(path);
  if (!file.valid()) return FromErrno(errno, "cannot create the token file " + path);
  std::array<unsigned char, 32> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return InternalError("the system gives no random bytes");
  }
  static constexpr char kHex[] = "0123456789abcdef";
  std::string token;
  for (const unsigned char byte : random) {
    token += kHex[byte >> 4];
    token += kHex[byte & 15];
  }
  const std::string line = token + "\n";
  const ssize_t written = ::write(file.get(), line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) {
    const int error = written < 0 ? errno : ENOSPC;
    ::unlink(path.c_str());
    return FromErrno(error, "cannot write the token file " + path);
  }
  return token;
}

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  // Over the length of `a`, whatever `b` is.
  for (size_t i = 0; i < a.size(); ++i) {
    const auto other = static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ other);
  }
  return difference == 0;
}

}  // namespace longhaul::service
