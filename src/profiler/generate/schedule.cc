#include "profiler/generate/schedule.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::profiler {
namespace {

using Kind = Pass::Kind;

std::vector<Pass> Interleaved(int stages, int stage, int micro_batches, int chunks) {
  CHECK(micro_batches % stages == 0);
  const int all = micro_batches * chunks;
  const int warm = std::min((stages - stage - 1) * 2 + (chunks - 1) * stages, all);
  std::vector<Pass> passes;
  const auto chunk_of = [&](int i) { return i % (stages * chunks) / stages; };
  // A chunk's last pass is that of the last group's last micro-batch.
  const auto last = [&](int i) { return i >= all - stages * chunks && i % stages == stages - 1; };
  const auto forward = [&](int i) { passes.push_back({Kind::kForward, chunk_of(i), last(i)}); };
  const auto backward = [&](int i) {
    passes.push_back({Kind::kBackward, chunks - 1 - chunk_of(i), last(i)});
  };
  for (int i = 0; i < warm; ++i) forward(i);
  for (int i = warm; i < all; ++i) {
    forward(i);
    backward(i - warm);
  }
  for (int i = all - warm; i < all; ++i) backward(i);
  return passes;
}

}  // namespace

std::vector<Pass> PassesOf(int stages, int stage, int micro_batches, int chunks, bool zero_bubble) {
  CHECK(chunks >= 1 && stage < stages && !(chunks > 1 && zero_bubble));
  if (chunks > 1) return Interleaved(stages, stage, micro_batches, chunks);
  const int warm = std::min(stages - 1 - stage, micro_batches);
  std::vector<Pass> passes;
  int forwards = 0, backwards = 0, weights = 0;
  const auto add = [&](Kind kind, int* count) {
    passes.push_back({kind, 0, ++*count == micro_batches});
  };
  while (forwards < warm) add(Kind::kForward, &forwards);
  while (backwards < micro_batches) {
    if (forwards < micro_batches) add(Kind::kForward, &forwards);
    add(Kind::kBackward, &backwards);
    if (zero_bubble && backwards > stage) add(Kind::kWeights, &weights);
  }
  while (zero_bubble && weights < micro_batches) add(Kind::kWeights, &weights);
  return passes;
}

}  // namespace longhaul::profiler
