// What training stops for: a snapshot of 1 GiB in 468 tensors of a GPT's sizes, beside the copy
// alone in the same process.
//
// All memory is touched before any clock runs, and the cases take turns in every round, so that
// what the neighbours do hits all of them: the figures to trust are medians of ratios within a
// round. Beside the time on the clock stands this thread's own, which other work on the machine
// moves less; on an idle machine both are the same. The copy-on-write part times what training
// stops for when the state is guarded, or the process forked, and what the next 20 steps of a
// stand-in for training (arithmetic, then an update of the whole state in place) cost more than
// without it, waited for before the first update or not.
//
//   blocking_bench [--rounds N] [--mib N] [--step-ms N] [--part blocking|write]
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "checkpoint/arena.h"
#include "checkpoint/copy.h"
#include "io/clock.h"
#include "io/memory/prefault.h"
#include "io/memory/private_memory.h"
#include "io/memory/shared_memory.h"
#include "io/memory/write_guard.h"

namespace longhaul::checkpoint {
namespace {

constexpr size_t kTensors = 468;  // 39 layers of 12
constexpr double kGiB = 1024.0 * 1024 * 1024;

struct Options {
  size_t rounds = 11;
  size_t mib = 1024;
  double step_ms = 100;
  std::string part = {};  // all
};

// 12 tensors a layer as in a GPT of width d: 4 matrices of d x d and more, and vectors of d.
StatePlan GptPlan(size_t bytes) {
  const double layer = static_cast<double>(bytes) / (kTensors / 12.0) / 4;  // elements
  int64_t d = 16;
  while (12.0 * static_cast<double>((d + 16) * (d + 16)) <= layer) d += 16;
  std::vector<TensorInfo> tensors;
  for (size_t i = 0; i < kTensors; ++i) {
    static constexpr int64_t kRows[12] = {3, 0, 1, 0, 4, 0, 4, 0, 0, 0, 0, 0};
    const int64_t rows = kRows[i % 12];
    const std::string name = "layer." + std::to_string(i / 12) + "." + std::to_string(i % 12);
    if (rows == 0) {
      tensors.push_back({name, "F32", {d}});
    } else {
      tensors.push_back({name, "F32", {rows * d, d}});
    }
  }
  return *StatePlan::Create(std::move(tensors));
}

// The state, each tensor at a multiple of 64 bytes as allocators give it.
class State {
 public:
  State(const StatePlan& plan, bool huge) {
    for (size_t i = 0; i < plan.size(); ++i) bytes_ += (plan.bytes(i) + 63) / 64 * 64;
    void* data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) std::abort();
    data_ = static_cast<std::byte*>(data);
    if (huge) madvise(data_, bytes_, MADV_HUGEPAGE);
    for (size_t i = 0; i < bytes_ / 8; ++i) Words()[i] = i * 0x9e3779b97f4a7c15u;
    size_t at = 0;
    for (size_t i = 0; i < plan.size(); ++i) {
      tensors_.emplace_back(data_ + at, plan.bytes(i));
      at += (plan.bytes(i) + 63) / 64 * 64;
    }
  }
  ~State() { munmap(data_, bytes_); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::span<const std::span<const std::byte>> tensors() const { return tensors_; }
  std::span<const std::byte> all() const { return {data_, bytes_}; }
  // Reads and writes all of it, as an optimizer does.
  void Update() {
    for (size_t i = 0; i < bytes_ / 8; ++i) Words()[i] += i;
  }

 private:
  uint64_t* Words() { return reinterpret_cast<uint64_t*>(data_); }
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  std::vector<std::span<const std::byte>> tensors_;
};

double SecondsOf(const std::function<void()>& work) {
  const Instant begin = io::MonotonicNow();
  work();
  return std::chrono::duration<double>(io::MonotonicNow() - begin).count();
}

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Case {
  std::string name;
  std::function<void()> work;
  std::vector<double> seconds = {};      // on the clock
  std::vector<double> own_seconds = {};  // this thread's

  void Run() {
    const double own = ThreadSeconds();
    seconds.push_back(SecondsOf(work));
    own_seconds.push_back(ThreadSeconds() - own);
  }
};

// The median of the ratios of pairs.
double Ratio(const std::vector<double>& one, const std::vector<double>& other) {
  std::vector<double> ratios;
  for (size_t i = 0; i < one.size(); ++i) ratios.push_back(one[i] / other[i]);
  return Median(ratios);
}

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        plan_(GptPlan(options.mib << 20)),
        state_(std::make_unique<State>(plan_, false)) {
    const auto bytes = static_cast<int64_t>(ArenaBytesFor(plan_));
    const Result<io::Fd> fd = io::CreateSharedMemory("bench", Bytes(bytes), /*populate=*/true);
    arena_ = io::SharedMapping::Map(*fd, true).value();
    gib_ = static_cast<double>(plan_.total_bytes()) / kGiB;
    std::printf("state %.3f GiB, %zu tensors; copy loop %s\n", gib_, plan_.size(),
                CopyVariants().back().name);
  }

  void Blocking() {
    for (size_t i = 0; i < kArenaSlots; ++i) Snapshot(1);
    std::vector<Case> cases = {{"copy alone", [this] { CopyAlone(); }},
                               {"snapshot", [this] { Snapshot(1); }},
                               {"copy alone, 2 threads", [this] { CopyAloneByTwo(); }},
                               {"snapshot, 2 threads", [this] { Snapshot(2); }},
                               {"copy alone again", [this] { CopyAlone(); }}};
    for (size_t round = 0; round < options_.rounds; ++round) {
      for (Case& each : cases) each.Run();
    }
    for (const Case& each : cases) {
      const double least = *std::min_element(each.seconds.begin(), each.seconds.end());
      std::printf(
          "%-22s %.4f s/GiB (min %.4f), of the copy alone: %.3f; own time %.4f s/GiB, %.3f\n",
          each.name.c_str(), Median(each.seconds) / gib_, least / gib_,
          Ratio(each.seconds, cases[0].seconds), Median(each.own_seconds) / gib_,
          Ratio(each.own_seconds, cases[0].own_seconds));
    }
  }

  // New arenas, made and mapped behind the worker as agent and worker do it: the first snapshot
  // into each slot over the second into the same one.
  void First() {
    Case first{"first", {}}, second{"second", {}};
    std::vector<double> made;
    for (size_t round = 0; round < std::max<size_t>(options_.rounds / 4, 3); ++round) {
      const auto bytes = static_cast<int64_t>(ArenaBytesFor(plan_));
      const auto memory =
          io::SharedMemory::Open(*io::CreateSharedMemory("first", Bytes(bytes), false)).value();
      const io::SharedMapping mapping = io::SharedMapping::Map(memory->fd()).value();
      made.push_back(SecondsOf([&] {
        const io::PageMaker maker(memory);
        io::PageMapper(mapping.bytes()).Wait(mapping.bytes().size());
      }));
      for (Case* each : {&first, &second}) {
        each->work = [&] { SnapshotInto(mapping.bytes(), 1); };
        for (size_t slot = 0; slot < kArenaSlots; ++slot) each->Run();
      }
    }
    std::printf(
        "%-22s %.4f s/GiB, of the second into the slot: %.3f (own time %.3f), %zu of them; "
        "%.2f s/GiB behind\n",
        "first snapshot", Median(first.seconds) / gib_, Ratio(first.seconds, second.seconds),
        Ratio(first.own_seconds, second.own_seconds), first.seconds.size(),
        Median(made) / kArenaSlots / gib_);
  }

  // Pairs of 20 steps with and without a snapshot begun after the first one's update.
  enum class Pages { kSmall, kMadeHuge, kHuge };
  void CopyOnWrite(Pages pages) {
    state_.reset();  // a fork copies the page tables of all private memory: only of this one
    State state(plan_, pages == Pages::kHuge);
    for (int i = 0; i < 2; ++i) state.Update();
    if (pages == Pages::kMadeHuge) {
      size_t made = 0;
      const double seconds = SecondsOf([&] {
        for (const uintptr_t page : io::WholeHugePages(state.tensors())) made += io::MakeHuge(page);
      });
      std::printf("%zu huge pages made in %.2f s/GiB\n", made, seconds / gib_);
    }
    const char* const size = pages == Pages::kSmall  ? "4 KiB"
                             : pages == Pages::kHuge ? "huge"
                                                     : "4 KiB made huge";
    for (const Way way : {Way::kGuard, Way::kGuardUnwaited, Way::kFork}) {
      if (way != Way::kFork && !guard_.ok()) {
        std::printf("%s\n", ToString(guard_.status()).c_str());
        continue;
      }
      std::vector<double> begins, own, waits, ratios;
      for (size_t round = 0; round < std::max<size_t>(options_.rounds / 4, 3); ++round) {
        const double without = TwentySteps(state, nullptr);
        begun_ = {way};
        ratios.push_back(TwentySteps(state, &begun_) / without);
        begins.push_back(begun_.begin_s);
        own.push_back(begun_.own_s);
        waits.push_back(begun_.wait_s);
      }
      static constexpr const char* kNames[] = {"guard", "guard, not waited for", "fork"};
      std::printf(
          "%s, %s pages: begin %.2f ms/GiB (own time %.2f), wait %.1f ms/GiB, 20 steps %.4f "
          "of those without\n",
          kNames[static_cast<int>(way)], size, Median(begins) * 1e3 / gib_,
          Median(own) * 1e3 / gib_, Median(waits) * 1e3 / gib_, Median(ratios));
    }
  }

 private:
  void CopyAlone() {
    std::byte* to = arena_.bytes().data() + 64 * 4096;
    for (const auto tensor : state_->tensors()) {
      StreamCopy(to, tensor);
      to += (tensor.size() + 63) / 64 * 64;
    }
    FenceStores();
  }
  // The same cut into two halves of equal bytes.
  void CopyAloneByTwo() {
    const auto from = state_->all();
    const size_t half = from.size() / 2 / 64 * 64;
    std::byte* to = arena_.bytes().data() + 64 * 4096;
    std::thread other([&] {
      StreamCopy(to + half, from.subspan(half));
      FenceStores();
    });
    StreamCopy(to, from.first(half));
    FenceStores();
    other.join();
  }
  void Snapshot(size_t threads) { SnapshotInto(arena_.bytes(), threads); }
  void SnapshotInto(std::span<std::byte> arena, size_t threads) {
    ArenaWriter writer(arena);
    if (!writer.Begin(++step_, 1, plan_).ok()) std::abort();
    writer.WriteAll(state_->tensors(), threads);
    writer.Seal();
  }

  enum class Way { kGuard, kGuardUnwaited, kFork };
  struct Begun {
    Way way = Way::kGuard;
    double begin_s = 0, own_s = 0, wait_s = 0;
  };

  double TwentySteps(State& state, Begun* begun) {
    ArenaWriter writer(arena_.bytes());
    return SecondsOf([&] {
      for (int step = 0; step < 20; ++step) {
        if (step == 0 && begun != nullptr) Begin(writer, state, *begun);
        Compute();
        const int waited_at = begun != nullptr && begun->way == Way::kGuardUnwaited ? 19 : 0;
        if (step == waited_at && begun != nullptr) {
          begun->wait_s = SecondsOf([&] {
            if (!writer.Finish().ok()) std::abort();
          });
        }
        state.Update();
      }
    });
  }
  void Begin(ArenaWriter& writer, State& state, Begun& begun) {
    const double own = ThreadSeconds();
    begun.begin_s = SecondsOf([&] {
      if (!writer.Begin(++step_, 1, plan_).ok()) std::abort();
      const Status started = begun.way == Way::kFork
                                 ? writer.StartCopy(state.tensors())
                                 : writer.StartLiveCopy(state.tensors(), *guard_);
      if (!started.ok()) std::abort();
    });
    begun.own_s = ThreadSeconds() - own;
  }
  // A fixed amount of arithmetic that stays in the cache, sized once.
  void Compute() {
    if (turns_ == 0) {
      const double second = SecondsOf([this] { Turns(1'000'000); });
      turns_ = static_cast<uint64_t>(1e6 * options_.step_ms / 1e3 / second);
    }
    Turns(turns_);
  }
  void Turns(uint64_t turns) {
    for (uint64_t i = 0; i < turns; ++i) sum_ = sum_ * 6364136223846793005u + i;
  }

  Options options_;
  StatePlan plan_;
  Result<io::WriteGuard> guard_ = io::WriteGuard::Create();
  Begun begun_;
  std::unique_ptr<State> state_;
  io::SharedMapping arena_;
  double gib_ = 0;
  uint64_t step_ = 0;
  uint64_t turns_ = 0;
  volatile uint64_t sum_ = 1;
};

}  // namespace

int Main(int argc, char** argv) {
  Options options;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--part") {
      options.part = argv[i + 1];
      continue;
    }
    const Result<uint64_t> value = ParseUint64(argv[i + 1]);
    if (!value.ok() || *value == 0) return 2;
    if (name == "--rounds") options.rounds = *value;
    if (name == "--mib") options.mib = *value;
    if (name == "--step-ms") options.step_ms = static_cast<double>(*value);
  }
  Bench bench(options);
  if (options.part != "write") {
    bench.Blocking();
    bench.First();
  }
  if (options.part != "blocking") {
    bench.CopyOnWrite(Bench::Pages::kSmall);
    bench.CopyOnWrite(Bench::Pages::kMadeHuge);
    bench.CopyOnWrite(Bench::Pages::kHuge);
  }
  return 0;
}

}  // namespace longhaul::checkpoint

int main(int argc, char** argv) { return longhaul::checkpoint::Main(argc, argv); }
