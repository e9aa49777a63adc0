// How much memory this process may take.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longhaul::bin {

// Bytes: the least that its control groups or those above them are limited to (below `root`:
// memory.max of cgroup v2, memory/memory.limit_in_bytes of v1), at most `physical`. `groups` is
// what /proc/self/cgroup says. What can't be read limits nothing.
uint64_t LeastLimit(uint64_t physical, std::string_view groups, const std::string& root);

// Of this process on this machine.
uint64_t AllowedMemory();

}  // namespace longhaul::bin
