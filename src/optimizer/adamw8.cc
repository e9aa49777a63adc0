#include "optimizer/adamw8.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "base/check.h"
#include "optimizer/adamw_step.h"
#include "optimizer/dynamic_code.h"
#include "optimizer/vectorised.h"

namespace longhaul::optimizer {
namespace {

constexpr uint32_t kInfinityBits = 0x7F800000U;
constexpr uint8_t kSignedZero = 127, kUnsignedZero = 0;

using Moments = std::array<float, AdamW8::kBlock>;

// The scale of a block. Bits of floats without a sign have the order of the floats, and NaN is the
// largest, so the maximum does not depend on the order.
[[gnu::always_inline]] inline float ScaleOf(size_t count, const float* values) {
  uint32_t most = 0;
  for (size_t i = 0; i < count; ++i) {
    most = std::max(most, std::bit_cast<uint32_t>(values[i]) & 0x7FFFFFFFU);
  }
  if (most >= kInfinityBits) return std::numeric_limits<float>::quiet_NaN();
  const auto scale = std::bit_cast<float>(most);
  return scale < std::numeric_limits<float>::min() ? 0.0F : scale;
}

[[gnu::always_inline]] inline void Encode(size_t count, const float* m, const float* v,
                                          uint8_t* first, float& first_scale, uint8_t* second,
                                          float& second_scale) {
  first_scale = ScaleOf(count, m);
  second_scale = ScaleOf(count, v);
  if (first_scale > 0) {
    const float factor = 1 / first_scale;
    for (size_t i = 0; i < count; ++i) first[i] = EncodeSigned(m[i] * factor);
  } else {
    std::fill(first, first + count, kSignedZero);
  }
  if (second_scale > 0) {
    const float factor = 1 / second_scale;
    for (size_t i = 0; i < count; ++i) second[i] = EncodeUnsigned(v[i] * factor);
  } else {
    std::fill(second, second + count, kUnsignedZero);
  }
}

// Loops over codes and floats are vectorised for vectors of codes: 64 of them with AVX-512.
constexpr size_t kCodesChunk = 64;

// Decodes, steps and keeps the moments in m and v.
[[gnu::always_inline]] inline void StepElement(const AdamWConstants& k, float g, float& w,
                                               uint8_t first, float first_scale, float& m,
                                               uint8_t second, float second_scale, float& v) {
  float moment1 = DecodeSigned(first) * first_scale;
  float moment2 = DecodeUnsigned(second) * second_scale;
  StepAdamW(k, g, w, moment1, moment2);
  m = moment1;
  v = moment2;
}

LONGHAUL_VECTORISED
void RunBlock(const AdamWConstants& k, size_t count, float* __restrict w, const float* __restrict g,
              uint8_t* __restrict first, float& first_scale, uint8_t* __restrict second,
              float& second_scale) {
  alignas(64) Moments m;
  alignas(64) Moments v;
  const float scale1 = first_scale, scale2 = second_scale;
  size_t at = 0;
  for (; at + kCodesChunk <= count; at += kCodesChunk) {
    for (size_t line = at; line < at + kCodesChunk; line += kBlock) FetchAhead(line, w, g);
    FetchAhead(at, first, second);
    for (size_t i = at; i < at + kCodesChunk; ++i) {
      StepElement(k, g[i], w[i], first[i], scale1, m[i], second[i], scale2, v[i]);
    }
  }
  for (; at < count; ++at) {
    StepElement(k, g[at], w[at], first[at], scale1, m[at], second[at], scale2, v[at]);
  }
  Encode(count, m.data(), v.data(), first, first_scale, second, second_scale);
}

}  // namespace

void Update(const AdamW8& adamw, const Step& step, std::span<float> weights,
            std::span<const float> gradients, const Codes& first, const Codes& second) {
  const size_t count = weights.size();
  CHECK(step.number >= 1);
  CHECK(gradients.size() == count && first.codes.size() == count && second.codes.size() == count);
  const size_t blocks = BlocksOf(adamw, count);
  CHECK(first.scales.size() == blocks && second.scales.size() == blocks);
  const AdamWConstants constants = ConstantsOf(adamw.beta1, adamw.beta2, adamw.epsilon, step);
  for (size_t block = 0; block < blocks; ++block) {
    const size_t at = block * AdamW8::kBlock;
    RunBlock(constants, std::min(AdamW8::kBlock, count - at), weights.data() + at,
             gradients.data() + at, first.codes.data() + at, first.scales[block],
             second.codes.data() + at, second.scales[block]);
  }
}

void DecodeSigned(std::span<const uint8_t> codes, float scale, std::span<float> values) {
  CHECK(codes.size() == values.size() && codes.size() <= AdamW8::kBlock);
  for (size_t i = 0; i < codes.size(); ++i) values[i] = DecodeSigned(codes[i]) * scale;
}

void DecodeUnsigned(std::span<const uint8_t> codes, float scale, std::span<float> values) {
  CHECK(codes.size() == values.size() && codes.size() <= AdamW8::kBlock);
  for (size_t i = 0; i < codes.size(); ++i) values[i] = DecodeUnsigned(codes[i]) * scale;
}

}  // namespace longhaul::optimizer
