// Checks whether ranges of this process's memory are private, so that a fork keeps their content;
// and handles the size of their pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::io {

// Returns kFailedPrecondition, with the index, for the first of `stretches` that touches a shared
// mapping or no mapping at all in `maps`, the text of /proc/PID/maps.
Status CheckPrivate(std::string_view maps, std::span<const std::span<const std::byte>> stretches);

// The same for this process.
Status CheckPrivate(std::span<const std::span<const std::byte>> stretches);

constexpr size_t kHugePageBytes = 2u << 20;

// The addresses of the huge pages that lie wholly in the stretches, where stretches with gaps of
// less than a page count as one; each address once, ascending.
std::vector<uintptr_t> WholeHugePages(std::span<const std::span<const std::byte>> stretches);

// Replaces the small pages at such an address by a huge one, with a copy (MADV_COLLAPSE, Linux
// 6.1): a walk of the page tables then has 512 times fewer entries. False when the kernel refuses.
bool MakeHuge(uintptr_t page);

}  // namespace longhaul::io
