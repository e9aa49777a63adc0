#include "planner/memory/gpu_memory.h"

#include <algorithm>

namespace longhaul::planner {

namespace {

using namespace longhaul::literals;

constexpr Bytes kBlock = 512_B;
constexpr Bytes kSmall = 1_MiB;
constexpr Bytes kSmallSegment = 2_MiB;
constexpr Bytes kMiddle = 10_MiB;
constexpr Bytes kMiddleSegment = 20_MiB;

Bytes RoundUp(Bytes bytes, Bytes step) {
  return Bytes((bytes.count() + step.count() - 1) / step.count() * step.count());
}

// Reserved over allocated. The older stacks' figure is held against nvidia-smi readings of A100s in
// 2022 and a pair of runs around the limit (validation/planner), the others are the middle of
// published pairs.
double ReservedShare(Family family) {
  switch (family) {
    case Family::kDeepSpeed:
      return 1.10;
    case Family::kOldMegatron:
      return 1.10;
    case Family::kShardedData:  // torchtitan's page, read as reserved: gathers come and go
      return 1.06;
    case Family::kMegatron:
    case Family::kLonghaul:
      return 1.04;
  }
  return 1.04;
}

}  // namespace

Bytes RoundBlock(Bytes bytes) { return std::max(kBlock, RoundUp(bytes, kBlock)); }

Bytes SegmentOf(Bytes bytes) {
  const Bytes block = RoundBlock(bytes);
  if (block <= kSmall) return kSmallSegment;
  if (block < kMiddle) return kMiddleSegment;
  return RoundUp(block, kSmallSegment);
}

Bytes Reserved(Bytes allocated, Family family) {
  const double share = ReservedShare(family);
  return SegmentOf(Bytes(static_cast<int64_t>(share * static_cast<double>(allocated.count()))));
}

Bytes OnGpu(Bytes reserved, const spec::Layout& layout, Family family, const spec::Device& device) {
  if (family == Family::kLonghaul) return reserved;
  // Contexts grew with the kernels loaded: about 0.5 GiB on Ampere, 0.6 since.
  const Bytes context = device.fp8.count() > 0 ? 600_MiB : 500_MiB;
  int64_t groups = 0;
  for (const uint64_t ranks : {uint64_t{layout.tensor}, uint64_t{layout.pipeline},
                               uint64_t{layout.data} * layout.context, uint64_t{layout.expert}}) {
    groups += ranks > 1 ? 1 : 0;
  }
  return reserved + context + groups * 300_MiB;
}

}  // namespace longhaul::planner
