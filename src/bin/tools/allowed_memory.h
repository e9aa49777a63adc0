// The memory that this process is allowed to use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longhaul::bin {

// In bytes: the smallest limit of its control groups and of their parents (below `root`: memory.max
// of cgroup v2, memory/memory.limit_in_bytes of v1), at most `physical`. `groups` is the content of
// /proc/self/cgroup. A file that cannot be read imposes no limit.
uint64_t LeastLimit(uint64_t physical, std::string_view groups, const std::string& root);

// The same for this process on this machine.
uint64_t AllowedMemory();

}  // namespace longhaul::bin
