// Whether a stretch of our memory is ours alone, so that a fork keeps it as it is; and the size of
// its pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::io {

// Refuses with kFailedPrecondition, naming the index, the first of `stretches` that touches a
// shared mapping or no mapping at all in `maps`, the text of /proc/PID/maps.
Status CheckPrivate(std::string_view maps, std::span<const std::span<const std::byte>> stretches);

// The same of this process.
Status CheckPrivate(std::span<const std::span<const std::byte>> stretches);

constexpr size_t kHugePageBytes = 2u << 20;

// The addresses of the huge pages that lie wholly in the stretches, where some of these follow each
// other without a gap of a page or more; each once, rising.
std::vector<uintptr_t> WholeHugePages(std::span<const std::span<const std::byte>> stretches);

// Puts the small pages at such an address into a huge one, by a copy (MADV_COLLAPSE, Linux 6.1):
// what walks page tables has 512 times less to do then. False when the kernel doesn't.
bool MakeHuge(uintptr_t page);

}  // namespace longhaul::io
