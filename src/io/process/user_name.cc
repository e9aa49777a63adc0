#include "io/process/user_name.h"

#include <pwd.h>
#include <unistd.h>

#include <vector>

namespace longhaul::io {

std::string UserName() {
  const uid_t user = geteuid();
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(16'384);
  const int error = getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found);
  if (error == 0 && found != nullptr && entry.pw_name[0] != '\0') return entry.pw_name;
  return "uid-" + std::to_string(user);
}

}  // namespace longhaul::io
