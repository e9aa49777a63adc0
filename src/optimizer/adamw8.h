// AdamW whose moments take 8 bits each (Dettmers et al., 8-bit Optimizers via Block-wise
// Quantization, ICLR 2022): 2 bytes a weight and 8 bytes a block instead of 8 bytes a weight.
//
// A block has 2,048 weights. Its moments are codes (dynamic_code.h: m signed, v unsigned) times
// its two scales, which are the largest magnitudes of m and of v in the block. A step decodes
// them, makes the step of adamw.h in float, and encodes m / scale and v / scale, which it computes
// as products with the scale's reciprocal in float. Unlike in the paper, a v that is not 0 does not
// become 0: a weight whose gradients are 1e-4 of the block's largest could move by m / epsilon.
//
// The smallest v is 3.3e-7 of the block's largest one, and the root of that is 6e-4: weights whose
// gradients are below this part of the block's largest ones move less than with AdamW. After 300
// steps on random gradients whose sizes within a block span 0, 1, 2, 3 and 4 decades, the weights
// differ from those of AdamW by 0.8, 1.8, 4.2, 12 and 22 % (adamw8_test.cc).
//
// A NaN or an infinity in a moment of a block makes its scale NaN, so that all weights of the
// block are NaN after the next step. Other blocks do not change. A scale below 2^-126 becomes 0.
//
// Any division of the buffers at borders of blocks gives the same bits. There is no other one,
// because a block has one scale: a rank's part begins at a multiple of 2,048.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "optimizer/step.h"

namespace longhaul::optimizer {

struct AdamW8 {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;

  static constexpr size_t kBlock = 2048;
};

// One moment: a code for each weight and a scale for each block. All of them are 0 at first.
struct Codes {
  std::span<uint8_t> codes;
  std::span<float> scales;
};

// The number of blocks of so many weights; the last one may be shorter.
inline size_t BlocksOf(const AdamW8&, size_t count) {
  return (count + AdamW8::kBlock - 1) / AdamW8::kBlock;
}

// Requires spans of one size, BlocksOf scales, and step.number >= 1.
void Update(const AdamW8& adamw, const Step& step, std::span<float> weights,
            std::span<const float> gradients, const Codes& first, const Codes& second);

// The moment of a block's weights: codes.size() <= AdamW8::kBlock.
void DecodeSigned(std::span<const uint8_t> codes, float scale, std::span<float> values);
void DecodeUnsigned(std::span<const uint8_t> codes, float scale, std::span<float> values);

}  // namespace longhaul::optimizer
