#include "io/memory/private_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "io/files/file.h"

// Debian 12's C library does not define it yet.
#if defined(__linux__) && !defined(MADV_COLLAPSE)
#define MADV_COLLAPSE 25
#endif

namespace longhaul::io {
namespace {

constexpr uint64_t kMaxMapsBytes = 64 << 20;

struct Mapping {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool is_private = false;
};

// "7f00-7f10 rw-p ...": begin, end, and whether writes stay private.
std::optional<Mapping> ParseLine(std::string_view line) {
  Mapping mapping;
  const char* const end = line.data() + line.size();
  const auto begin_read = std::from_chars(line.data(), end, mapping.begin, 16);
  if (begin_read.ec != std::errc() || begin_read.ptr == end || *begin_read.ptr != '-') return {};
  const auto end_read = std::from_chars(begin_read.ptr + 1, end, mapping.end, 16);
  constexpr ptrdiff_t kFlags = 5;  // " rw-p"
  if (end_read.ec != std::errc() || end - end_read.ptr < kFlags || *end_read.ptr != ' ') return {};
  mapping.is_private = end_read.ptr[4] == 'p';
  return mapping;
}

}  // namespace

Status CheckPrivate(std::string_view maps, std::span<const std::span<const std::byte>> stretches) {
  std::vector<Mapping> mappings;  // by rising address, as the kernel writes them
  for (const std::string_view line : Split(maps, '\n')) {
    if (const std::optional<Mapping> mapping = ParseLine(line)) mappings.push_back(*mapping);
  }
  for (size_t i = 0; i < stretches.size(); ++i) {
    auto at = reinterpret_cast<uint64_t>(stretches[i].data());
    const uint64_t end = at + stretches[i].size();
    while (at < end) {
      const auto found = std::upper_bound(
          mappings.begin(), mappings.end(), at,
          [](uint64_t address, const Mapping& mapping) { return address < mapping.end; });
      if (found == mappings.end() || found->begin > at || !found->is_private) {
        return FailedPrecondition("stretch " + std::to_string(i) +
                                  " lies in memory that is shared with other processes or devices");
      }
      at = found->end;
    }
  }
  return {};
}

Status CheckPrivate(std::span<const std::span<const std::byte>> stretches) {
  ASSIGN_OR_RETURN(const std::string maps, ReadText("/proc/self/maps", kMaxMapsBytes));
  return CheckPrivate(maps, stretches);
}

std::vector<uintptr_t> WholeHugePages(std::span<const std::span<const std::byte>> stretches) {
  constexpr uintptr_t kPage = 4096;
  std::vector<std::pair<uintptr_t, uintptr_t>> ranges;
  for (const auto stretch : stretches) {
    const auto begin = reinterpret_cast<uintptr_t>(stretch.data());
    // Data that shares a page with the state is private as well.
    const uintptr_t end = (begin + stretch.size() + kPage - 1) / kPage * kPage;
    if (!stretch.empty()) ranges.emplace_back(begin / kPage * kPage, end);
  }
  std::sort(ranges.begin(), ranges.end());
  std::vector<uintptr_t> pages;
  for (size_t i = 0; i < ranges.size();) {
    uintptr_t end = ranges[i].second;
    size_t next = i + 1;
    for (; next < ranges.size() && ranges[next].first <= end; ++next) {
      end = std::max(end, ranges[next].second);
    }
    uintptr_t at = (ranges[i].first + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
    for (; at + kHugePageBytes <= end; at += kHugePageBytes) pages.push_back(at);
    i = next;
  }
  return pages;
}

bool MakeHuge(uintptr_t page) {
  CHECK(page % kHugePageBytes == 0);
#ifdef MADV_COLLAPSE
  return madvise(reinterpret_cast<void*>(page), kHugePageBytes, MADV_COLLAPSE) == 0;
#else
  return false;
#endif
}

}  // namespace longhaul::io
