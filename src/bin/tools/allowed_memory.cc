#include "bin/tools/allowed_memory.h"

#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "io/files/file.h"

namespace longhaul::bin {

namespace {

// The limit of a group and of all above it, up to the root.
uint64_t LeastOf(const std::string& root, std::string group, const std::string& file) {
  uint64_t least = UINT64_MAX;
  while (true) {
    constexpr uint64_t kMostDigits = 64;
    const auto text = io::ReadText(root + group + file, kMostDigits);
    if (text.ok()) {
      const auto limit = ParseUint64(text->substr(0, text->find('\n')));  // or "max"
      if (limit.ok()) least = std::min(least, *limit);
    }
    const size_t slash = group.rfind('/');
    if (slash == group.npos) return least;
    group.resize(slash);
  }
}

}  // namespace

uint64_t LeastLimit(uint64_t physical, std::string_view groups, const std::string& root) {
  uint64_t least = physical;
  while (!groups.empty()) {
    const std::string_view line = groups.substr(0, groups.find('\n'));
    groups.remove_prefix(std::min(groups.size(), line.size() + 1));
    // NUMBER:CONTROLLERS:/GROUP
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? first : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string group(line.substr(second + 1));
    if (controllers.empty()) least = std::min(least, LeastOf(root, group, "/memory.max"));
    if (controllers == "memory") {
      least = std::min(least, LeastOf(root + "/memory", group, "/memory.limit_in_bytes"));
    }
  }
  return least;
}

uint64_t AllowedMemory() {
  const uint64_t physical =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto groups = io::ReadText("/proc/self/cgroup", 1 << 16);
  return groups.ok() ? LeastLimit(physical, *groups, "/sys/fs/cgroup") : physical;
}

}  // namespace longhaul::bin
