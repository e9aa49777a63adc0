// Snapshots without a fork: what is sealed is the state as it was, whatever is written meanwhile.
#include "checkpoint/internal/live_copy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "base/units.h"
#include "checkpoint/arena.h"
#include "checkpoint/copy.h"
#include "io/fd.h"
#include "io/memory/shared_memory.h"
#include "io/memory/write_guard.h"

namespace longhaul::checkpoint {
namespace {

constexpr size_t kMiB = 1u << 20;

// Tensors of odd sizes side by side in one mapping, as allocators lay them: the ends of most share
// a page with their neighbours, and one is far larger than a window.
std::vector<TensorInfo> Tensors() {
  return {{"a", "U8", {13}},   {"b", "U8", {5 * kMiB + 333}}, {"empty", "U8", {0}},
          {"c", "U8", {4096}}, {"d", "U8", {kMiB}},           {"e", "U8", {700'001}}};
}

class LiveSnapshot : public testing::Test {
 protected:
  void SetUp() override {
    Result<io::WriteGuard> guard = io::WriteGuard::Create();
    if (!guard.ok()) GTEST_SKIP() << guard.status();
    guard_.emplace(std::move(guard).value());
    plan_ = *StatePlan::Create(Tensors());
    const Bytes size(static_cast<int64_t>(ArenaBytesFor(plan_)));
    const Result<io::Fd> fd = io::CreateSharedMemory("arena", size, true);
    ASSERT_TRUE(fd.ok()) << fd.status();
    arena_ = io::SharedMapping::Map(*fd).value();
    bytes_ = 16 * kMiB;
    void* data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(data, MAP_FAILED);
    memory_ = static_cast<std::byte*>(data);
    for (size_t i = 0, at = 100; i < plan_.size(); ++i) {
      tensors_.emplace_back(memory_ + at, plan_.bytes(i));
      at += (plan_.bytes(i) + 63) / 64 * 64 + 16;
    }
  }
  void TearDown() override {
    if (memory_ != nullptr) munmap(memory_, bytes_);
  }

  void Fill(unsigned seed) {
    for (size_t i = 0; i < bytes_; ++i) {
      memory_[i] = std::byte(static_cast<unsigned char>(i * 2654435761u >> 13 ^ seed));
    }
  }
  std::vector<std::span<const std::byte>> State() const {
    return {tensors_.begin(), tensors_.end()};
  }
  // Whether the snapshot verifies and is what Fill(seed) made.
  bool Holds(uint64_t step, unsigned seed) {
    const Result<ArenaReader::View> view = ArenaReader(arena_.bytes()).Open(step);
    if (!view.ok()) return false;
    std::vector<std::byte> now(memory_, memory_ + bytes_);
    Fill(seed);
    bool equal = true;
    for (size_t i = 0; i < plan_.size(); ++i) {
      equal =
          equal && (plan_.bytes(i) == 0 ||
                    std::memcmp(view->tensors[i].data(), tensors_[i].data(), plan_.bytes(i)) == 0);
    }
    std::memcpy(memory_, now.data(), bytes_);
    return equal;
  }

  std::optional<io::WriteGuard> guard_;
  StatePlan plan_;
  io::SharedMapping arena_;
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
  std::vector<std::span<std::byte>> tensors_;
};

TEST_F(LiveSnapshot, HoldsTheStateOfItsStartWhateverIsWrittenAfter) {
  ArenaWriter writer(arena_.bytes());
  for (unsigned step = 1; step <= 8; ++step) {
    Fill(step);
    ASSERT_TRUE(writer.Begin(step, 1, plan_).ok());
    const Status started = writer.StartLiveCopy(State(), *guard_);
    ASSERT_TRUE(started.ok()) << started;
    EXPECT_TRUE(writer.copying());
    // From the end, against the order of the copy, and everything at once.
    for (size_t i = bytes_; i-- > 0;) memory_[i] = std::byte{9};
    ASSERT_TRUE(writer.Finish().ok());
    EXPECT_FALSE(writer.copying());
    ASSERT_TRUE(Holds(step, step)) << step;
    EXPECT_EQ(memory_[5], std::byte{9});
  }
}

TEST_F(LiveSnapshot, HoldsItWhileThreadsWriteAllOver) {
  ArenaWriter writer(arena_.bytes());
  Fill(3);
  ASSERT_TRUE(writer.Begin(1, 1, plan_).ok());
  ASSERT_TRUE(writer.StartLiveCopy(State(), *guard_).ok());
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (size_t i = 0; i < 400; ++i) {
        const size_t at = (i * 40'503 + t * 4'000'037) % bytes_;
        *const_cast<volatile std::byte*>(memory_ + at) = std::byte{7};
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_TRUE(Holds(1, 3));
}

// A write that comes while nothing has been copied yet makes its window the first.
TEST_F(LiveSnapshot, AWriterWaitsForItsWindowAlone) {
  Fill(1);
  const std::byte before = tensors_[5][700'000];
  std::vector<std::byte> target(2 * kMiB + 64);
  std::byte* to = target.data() + (64 - reinterpret_cast<uintptr_t>(target.data()) % 64);
  std::atomic<bool> sealed = false;
  const auto seal = [](void* argument, const uint64_t*) {
    *static_cast<std::atomic<bool>*>(argument) = true;
  };
  auto copy =
      internal::LiveCopy::Start(*guard_, {{tensors_[5].data(), to, 700'001}}, seal, &sealed);
  ASSERT_TRUE(copy.ok()) << copy.status();
  tensors_[5][700'000] = std::byte{77};
  (*copy)->Wait();
  EXPECT_TRUE(sealed);
  EXPECT_EQ(to[700'000], before);
  EXPECT_EQ(tensors_[5][700'000], std::byte{77});
}

TEST_F(LiveSnapshot, MemoryThatIsNotOursIsRefusedAndNothingStaysGuarded) {
  ArenaWriter writer(arena_.bytes());
  Fill(1);
  // A file's page in the middle.
  const io::Fd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  ASSERT_NE(mmap(memory_ + 2 * kMiB, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
                 file.get(), 0),
            MAP_FAILED);
  ASSERT_TRUE(writer.Begin(1, 1, plan_).ok());
  EXPECT_EQ(writer.StartLiveCopy(State(), *guard_).code(), Code::kFailedPrecondition);
  EXPECT_FALSE(writer.copying());
  memory_[0] = tensors_[5][0] = std::byte{5};  // nobody would wake us
  EXPECT_TRUE(ArenaReader(arena_.bytes()).ListSealed().empty());
}

}  // namespace
}  // namespace longhaul::checkpoint
