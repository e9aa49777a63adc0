/* The public header is C: it compiles as C and its functions link from C. */
#include "longhaul.h"

uint64_t SampleFromC(uint64_t samples, uint64_t seed, uint64_t position);
uint64_t SampleFromC(uint64_t samples, uint64_t seed, uint64_t position) {
  const longhaul_lease lease = {samples, 1, seed, 1, 2};
  return longhaul_sample(&lease, position);
}

int UpdateFromC(float* weights, const float* gradients, float* momentum, size_t count);
int UpdateFromC(float* weights, const float* gradients, float* momentum, size_t count) {
  const longhaul_lion_options options = {sizeof(options), 0.9, 0.99};
  const longhaul_update update = {sizeof(update), 1, 0.5, 0, 1};
  return longhaul_lion(&options, &update, count, weights, gradients, momentum, NULL);
}
