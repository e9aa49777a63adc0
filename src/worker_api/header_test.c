/* The public header is C: it compiles as C and its functions link from C. */
#include "longhaul.h"

uint64_t SampleFromC(uint64_t samples, uint64_t seed, uint64_t position);
uint64_t SampleFromC(uint64_t samples, uint64_t seed, uint64_t position) {
  const longhaul_lease lease = {samples, 1, seed, 1, 2};
  return longhaul_sample(&lease, position);
}
