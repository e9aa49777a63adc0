// How fast a sealed snapshot becomes a durable shard: verified, written, synced, renamed.
//
//   persist_bench FOLDER MIB [buffered]   prints seconds and MB/s; the file is removed
#include <cstdio>
#include <string>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "checkpoint/directory.h"
#include "checkpoint/shard.h"
#include "io/clock.h"
#include "io/files/direct_file.h"
#include "io/memory/shared_memory.h"

namespace longhaul::checkpoint {
namespace {

int Main(const std::string& folder, uint64_t mib, bool buffered) {
  const auto bytes = static_cast<int64_t>(mib << 20);
  const StatePlan plan = *StatePlan::Create({{"state", "U8", {bytes}}});
  // As the arena's: shared memory, the tensor at the start of a page.
  const Result<io::Fd> fd = io::CreateSharedMemory("state", Bytes(bytes), /*populate=*/true);
  const Result<io::SharedMapping> mapping = io::SharedMapping::Map(*fd, true);
  if (!mapping.ok()) return 1;
  const std::span<std::byte> state = mapping->bytes();
  for (size_t i = 0; i < state.size(); ++i) state[i] = std::byte(i * 2654435761u >> 24);
  const std::span<const std::byte> tensors[] = {state};
  const ChunkHashes hashes = HashTensors(tensors);  // the arena has them from the copy

  io::FileSystem& files = buffered ? io::PosixFileSystem() : io::DirectFileSystem();
  CheckpointDirectory checkpoints(files, folder + "/persist_bench");
  const Instant begin = io::MonotonicNow();
  const Result<PieceFile> piece = checkpoints.WriteHashedPiece({1, 1, 0, 1}, plan, hashes, tensors);
  const double seconds = std::chrono::duration<double>(io::MonotonicNow() - begin).count();
  if (!piece.ok()) {
    std::fprintf(stderr, "%s\n", ToString(piece.status()).c_str());
    return 1;
  }
  const std::string step = folder + "/persist_bench/" + CheckpointDirectory::NameOf(1, 1);
  (void)files.Remove(step + "/" + piece->name);
  (void)files.RemoveDirectory(step);
  (void)files.RemoveDirectory(folder + "/persist_bench");
  std::printf("%.4f s, %.0f MB/s\n", seconds, static_cast<double>(piece->bytes) / seconds / 1e6);
  return 0;
}

}  // namespace
}  // namespace longhaul::checkpoint

int main(int argc, char** argv) {
  const auto mib = argc > 2 ? longhaul::ParseUint64(argv[2]) : longhaul::Result<uint64_t>(0);
  if (argc < 3 || !mib.ok() || *mib == 0 || *mib > 65536) {
    std::fprintf(stderr, "usage: persist_bench FOLDER MIB [buffered]\n");
    return 2;
  }
  return longhaul::checkpoint::Main(argv[1], *mib, argc > 3);
}
