// What packing gains and costs: packed_bench FILE.safetensors [ROUNDS]
//
// Takes what is behind the header a MiB at a time, much as a copy of a shard does, packs and
// unpacks each, and prints ratio and MB a CPU second of one thread, the best of the rounds. Reading
// and writing are left out.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "base/check.h"
#include "io/files/file.h"
#include "objects/packed.h"
#include "objects/packed_format.h"

using namespace longhaul;
using namespace longhaul::objects;

namespace {

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

struct Figures {
  double ratio = 0;
  double pack = 0;  // bytes a second
  double unpack = 0;
};

Figures Round(std::span<const std::byte> data) {
  Packer packer;
  Unpacker unpacker;
  std::vector<std::byte> back(kPackedBlockBytes);
  double packing = 0, unpacking = 0;
  uint64_t stored = 0;
  for (size_t at = 0; at < data.size(); at += kPackedBlockBytes) {
    const auto block = data.subspan(at, std::min(kPackedBlockBytes, data.size() - at));
    const double begin = CpuSeconds();
    const Packer::Packed packed = packer.Pack(block);
    const double between = CpuSeconds();
    const auto to = std::span(back).first(block.size());
    CHECK(unpacker.Unpack(packed.block, packed.stored, to).ok());
    unpacking += CpuSeconds() - between;
    packing += between - begin;
    stored += packed.stored.size() + kPackedEntryBytes;
    CHECK(std::equal(to.begin(), to.end(), block.begin()));
  }
  const auto bytes = static_cast<double>(data.size());
  return {bytes / static_cast<double>(stored), bytes / packing, bytes / unpacking};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: packed_bench FILE.safetensors [ROUNDS]\n");
    return 2;
  }
  const auto all = io::PosixFileSystem().ReadAll(argv[1], uint64_t{4} << 30);
  if (!all.ok()) {
    std::fprintf(stderr, "%s\n", ToString(all.status()).c_str());
    return 1;
  }
  uint64_t header = 0;
  CHECK(all->size() > sizeof(header));
  std::memcpy(&header, all->data(), sizeof(header));
  CHECK(header < all->size() - sizeof(header));
  const auto data = std::span(*all).subspan(sizeof(header) + header);
  Figures best;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  for (int i = 0; i < rounds; ++i) {
    const Figures found = Round(data);
    best = {found.ratio, std::max(best.pack, found.pack), std::max(best.unpack, found.unpack)};
  }
  std::printf("%.1f MB  ratio %.3f  pack %.0f MB/s  unpack %.0f MB/s\n",
              static_cast<double>(data.size()) / 1e6, best.ratio, best.pack / 1e6,
              best.unpack / 1e6);
  return 0;
}
