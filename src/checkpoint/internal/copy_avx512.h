// The copy loop for machines with AVX-512; copy.cc chooses. Contracts as in checkpoint/copy.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace longhaul::checkpoint::internal {

uint64_t CopyOutAvx512(char* to, const char* from, size_t bytes);
void StreamAvx512(char* to, const char* from, size_t bytes);  // the copy alone

}  // namespace longhaul::checkpoint::internal
