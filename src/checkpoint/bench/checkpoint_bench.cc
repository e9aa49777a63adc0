// The blocking cost of a snapshot: copy with hash, against the floors measured in the same process.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "base/units.h"
#include "checkpoint/arena.h"
#include "checkpoint/copy.h"
#include "io/memory/shared_memory.h"

namespace longhaul::checkpoint {
namespace {

constexpr size_t kBytes = 128u << 20;

// Source memory and a populated shared mapping to copy to, made once.
struct Buffers {
  Buffers() : from(kBytes, std::byte{3}) {
    const StatePlan plan = *StatePlan::Create({{"a", "U8", {int64_t{kBytes}}}});
    const Result<io::Fd> fd = io::CreateSharedMemory(
        "bench", Bytes(static_cast<int64_t>(ArenaBytesFor(plan))), /*populate=*/true);
    to = io::SharedMapping::Map(*fd, true).value();
    std::memset(to.bytes().data(), 0, to.bytes().size());
  }
  std::vector<std::byte> from;
  io::SharedMapping to;
};
Buffers& Memory() {
  static Buffers buffers;
  return buffers;
}

void Count(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(kBytes));
}

void PlainCopy(benchmark::State& state) {
  Memory();  // made and touched before the clock runs
  for (auto _ : state) std::memcpy(Memory().to.bytes().data(), Memory().from.data(), kBytes);
  Count(state);
}
void StreamedCopyFloor(benchmark::State& state) {
  for (auto _ : state) StreamCopy(Memory().to.bytes().data(), Memory().from);
  Count(state);
}
void StreamedCopyWithHash(benchmark::State& state) {
  const std::span<const std::byte> from = Memory().from;
  for (auto _ : state) {
    for (size_t at = 0; at < kBytes; at += kChunkBytes) {
      benchmark::DoNotOptimize(
          CopyChunkOut(Memory().to.bytes().data() + at, from.subspan(at, kChunkBytes)));
    }
  }
  Count(state);
}
void HashAlone(benchmark::State& state) {
  const std::span<const std::byte> from = Memory().from;
  for (auto _ : state) {
    for (size_t at = 0; at < kBytes; at += kChunkBytes) {
      benchmark::DoNotOptimize(HashChunk(from.subspan(at, kChunkBytes)));
    }
  }
  Count(state);
}
void Snapshot(benchmark::State& state) {
  const StatePlan plan = *StatePlan::Create({{"a", "U8", {int64_t{kBytes}}}});
  ArenaWriter writer(Memory().to.bytes());
  uint64_t step = 0;
  for (auto _ : state) {
    if (!writer.Begin(++step, 1, plan).ok()) return state.SkipWithError("begin");
    writer.Write(0, Memory().from);
    writer.Seal();
  }
  Count(state);
}
void VerifiedRestore(benchmark::State& state) {
  const StatePlan plan = *StatePlan::Create({{"a", "U8", {int64_t{kBytes}}}});
  ArenaWriter writer(Memory().to.bytes());
  if (!writer.Begin(1'000'000, 1, plan).ok()) return state.SkipWithError("begin");
  writer.Write(0, Memory().from);
  writer.Seal();
  std::vector<std::byte> target(kBytes);
  const std::span<std::byte> tensors[] = {target};
  const ArenaReader reader(Memory().to.bytes());
  for (auto _ : state) {
    if (!reader.CopyInto(1'000'000, plan, tensors).ok()) return state.SkipWithError("copy");
  }
  Count(state);
}

BENCHMARK(PlainCopy)->MinTime(0.3);
BENCHMARK(StreamedCopyFloor)->MinTime(0.3);
BENCHMARK(StreamedCopyWithHash)->MinTime(0.3);
BENCHMARK(HashAlone)->MinTime(0.3);
BENCHMARK(Snapshot)->MinTime(0.3);
BENCHMARK(VerifiedRestore)->MinTime(0.3);

}  // namespace
}  // namespace longhaul::checkpoint

BENCHMARK_MAIN();
