#include "io/memory/write_guard.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <span>
#include <thread>

namespace longhaul::io::write_guard_test {
namespace {

constexpr size_t kPages = 16;

class Guarded : public testing::Test {
 protected:
  void SetUp() override {
    Result<WriteGuard> guard = WriteGuard::Create();
    if (!guard.ok()) GTEST_SKIP() << guard.status();
    guard_.emplace(std::move(guard).value());
    void* data = mmap(nullptr, kPages * kGuardPage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(data, MAP_FAILED);
    memory_ = {static_cast<std::byte*>(data), kPages * kGuardPage};
    std::memset(data, 1, memory_.size());
  }
  void TearDown() override {
    if (!memory_.empty()) munmap(memory_.data(), memory_.size());
  }
  // Waits for a write that waits.
  uintptr_t AwaitWrite() {
    while (true) {
      if (const auto address = guard_->NextWrite()) return *address;
      std::this_thread::yield();
    }
  }

  std::optional<WriteGuard> guard_;
  std::span<std::byte> memory_;
};

TEST_F(Guarded, AWriteWaitsUntilItsPageIsReleased) {
  ASSERT_TRUE(guard_->Protect(memory_));
  std::byte& target = memory_[5 * kGuardPage + 7];
  std::atomic<bool> written = false;
  std::thread writer([&] {
    *const_cast<volatile std::byte*>(&target) = std::byte{2};
    written = true;
  });
  const uintptr_t address = AwaitWrite();
  EXPECT_EQ(address / kGuardPage, reinterpret_cast<uintptr_t>(&target) / kGuardPage);
  EXPECT_EQ(target, std::byte{1}) << "reads continue and see the old";
  EXPECT_FALSE(written);
  guard_->Release(memory_.subspan(5 * kGuardPage, kGuardPage));
  writer.join();
  EXPECT_EQ(target, std::byte{2});
}

TEST_F(Guarded, AWriteOfTheKernelForUsWaitsToo) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  ASSERT_TRUE(guard_->Protect(memory_));
  ssize_t got = 0;
  std::thread reader([&] { got = read(ends[0], memory_.data(), 1); });
  (void)AwaitWrite();
  guard_->Release(memory_);
  reader.join();
  EXPECT_EQ(got, 1);
  EXPECT_EQ(memory_[0], std::byte{'x'});
  close(ends[0]);
  close(ends[1]);
}

TEST_F(Guarded, MayBeGuardedAgainAndAgain) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(guard_->Protect(memory_));
    guard_->Release(memory_);
    std::memset(memory_.data(), i, memory_.size());
    EXPECT_EQ(memory_[3], std::byte(static_cast<unsigned char>(i)));
  }
  EXPECT_FALSE(guard_->NextWrite().has_value()) << "nobody had to wait";
}

TEST_F(Guarded, ReleasesWhatIsLeftWhenAPartIsUnmapped) {
  ASSERT_TRUE(guard_->Protect(memory_));
  ASSERT_EQ(munmap(memory_.data() + 4 * kGuardPage, kGuardPage), 0);
  guard_->Release(memory_);
  memory_[0] = memory_[3 * kGuardPage] = memory_[5 * kGuardPage] = memory_.back() = std::byte{3};
  EXPECT_EQ(memory_.back(), std::byte{3});
}

TEST_F(Guarded, RefusesWhatIsNotMapped) {
  const std::span<const std::byte> hole(memory_.data(), kGuardPage);
  munmap(memory_.data(), kGuardPage);
  EXPECT_FALSE(guard_->Protect(hole));
}

}  // namespace
}  // namespace longhaul::io::write_guard_test
