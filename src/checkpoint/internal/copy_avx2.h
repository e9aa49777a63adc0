// The copy loop for machines with AVX2; copy.cc chooses. Contracts as in checkpoint/copy.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace longhaul::checkpoint::internal {

uint64_t HashAvx2(const char* from, size_t bytes);
uint64_t CopyOutAvx2(char* to, const char* from, size_t bytes);
uint64_t CopyInAvx2(char* to, const char* from, size_t bytes);
void StreamAvx2(char* to, const char* from, size_t bytes);  // the copy alone

}  // namespace longhaul::checkpoint::internal
