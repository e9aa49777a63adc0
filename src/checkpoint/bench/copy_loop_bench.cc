// The copy loop beside the copy alone, on a machine that has other work too.
//
// Stretches of 4 MiB of a GiB are copied in turn by one and the other in an order that is shuffled,
// so that no stretch is in the cache and neighbours hit both alike; what counts is the thread's own
// time, and of all stretches the median and the quartile.
//
//   copy_loop_bench [PASSES]
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "checkpoint/copy.h"
#include "io/memory/shared_memory.h"

namespace longhaul::checkpoint {
namespace {

constexpr size_t kBytes = 1u << 30;
constexpr size_t kStretch = 4u << 20;
constexpr double kStretchesAGiB = double{kBytes} / kStretch;

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Case {
  std::string name;
  std::function<void(std::byte*, std::span<const std::byte>)> copy;
  std::vector<double> seconds = {};
};

std::vector<Case> Cases() {
  std::vector<Case> cases = {{"copy alone", StreamCopy}};
  for (const CopyVariant& variant : CopyVariants()) {
    const auto copy = [one = variant.copy_out](std::byte* to, std::span<const std::byte> from) {
      for (size_t at = 0; at < from.size(); at += kChunkBytes) {
        (void)one(reinterpret_cast<char*>(to) + at, reinterpret_cast<const char*>(from.data()) + at,
                  kChunkBytes);
      }
    };
    cases.push_back({variant.name, copy});
  }
  cases.push_back({"copy alone again", StreamCopy});
  return cases;
}

double Quantile(std::vector<double>& values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

int Main(uint64_t passes) {
  const Result<io::Fd> fd = io::CreateSharedMemory("bench", Bytes(int64_t{kBytes}), true);
  const Result<io::SharedMapping> target = io::SharedMapping::Map(*fd, true);
  if (!target.ok()) return 1;
  std::vector<uint64_t> source(kBytes / 8);
  std::mt19937_64 rng(1);
  for (uint64_t& word : source) word = rng();
  const auto from = std::as_bytes(std::span(source));

  std::vector<Case> cases = Cases();
  std::vector<size_t> order;
  for (uint64_t pass = 0; pass < passes; ++pass) {
    for (size_t at = 0; at < kBytes; at += kStretch) {
      if (order.empty()) {
        for (size_t i = 0; i < cases.size(); ++i) order.push_back(i);
        for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[rng() % (i + 1)]);
      }
      Case& each = cases[order.back()];
      order.pop_back();
      const double begin = ThreadSeconds();
      each.copy(target->bytes().data() + at, from.subspan(at, kStretch));
      FenceStores();
      each.seconds.push_back(ThreadSeconds() - begin);
    }
  }
  const double half = Quantile(cases[0].seconds, 0.5), quarter = Quantile(cases[0].seconds, 0.25);
  for (Case& each : cases) {
    const double median = Quantile(each.seconds, 0.5), first = Quantile(each.seconds, 0.25);
    std::printf("%-17s %.4f s/GiB, %.3f of the copy alone (first quartiles %.3f), %zu stretches\n",
                each.name.c_str(), median * kStretchesAGiB, median / half, first / quarter,
                each.seconds.size());
  }
  return 0;
}

}  // namespace
}  // namespace longhaul::checkpoint

int main(int argc, char** argv) {
  const auto passes =
      argc > 1 ? longhaul::ParseUint64(argv[1]) : longhaul::Result<uint64_t>(uint64_t{20});
  if (!passes.ok() || *passes == 0 || *passes > 10'000) {
    std::fprintf(stderr, "usage: copy_loop_bench [PASSES]\n");
    return 2;
  }
  return longhaul::checkpoint::Main(*passes);
}
