// Memory for files that are opened with O_DIRECT.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace longhaul::io {

// Of memory, offsets and lengths, enough for every disk.
inline constexpr size_t kDirectAlignment = 4096;

struct FreeAligned {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<std::byte, FreeAligned>;

// Memory of `bytes`, a multiple of kDirectAlignment; null where there is none.
inline AlignedMemory AllocateAligned(size_t bytes) {
  return AlignedMemory(static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, bytes)));
}

}  // namespace longhaul::io
