#include "service/notify/hook_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "io/files/file.h"

namespace longhaul::service {

Result<std::vector<spec::HookSpec>> ReadHookFile(const std::string& path) {
  constexpr uint64_t kLargestFile = 1 << 20;
  if (path.empty()) return std::vector<spec::HookSpec>();
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) {
    return InvalidArgument("--notify: cannot open " + path + ": " + std::strerror(errno));
  }
  const bool by_others = (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0 ||
                         (facts.st_uid != geteuid() && facts.st_uid != 0);
  if (by_others) {
    return InvalidArgument("--notify: other users may write " + path +
                           ", whose commands run as you: chmod go-w " + path +
                           ", and own the file");
  }
  const Result<std::string> text = io::ReadText(path, kLargestFile);
  if (!text.ok()) return InvalidArgument("--notify: " + text.status().message());
  return spec::ParseNotifyFile(*text, path);
}

}  // namespace longhaul::service
