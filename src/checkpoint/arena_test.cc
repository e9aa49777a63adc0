#include "checkpoint/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "checkpoint/copy.h"
#include "checkpoint/internal/slot.h"
#include "checkpoint/shard.h"
#include "checkpoint/testing.h"
#include "io/process/forked_child.h"

namespace longhaul::checkpoint::arena_test {
namespace {

using testing_support::SmallPlan;
using testing_support::State;

// An arena in ordinary memory, aligned as a mapping is.
class Memory {
 public:
  explicit Memory(uint64_t bytes) : storage_(bytes + 64) {}
  std::span<std::byte> bytes() {
    const size_t skip = (64 - reinterpret_cast<uintptr_t>(storage_.data()) % 64) % 64;
    return std::span(storage_).subspan(skip, storage_.size() - 64);
  }

 private:
  std::vector<std::byte> storage_;
};

void Save(ArenaWriter& writer, const State& state, uint64_t step, uint64_t attempt = 1) {
  ASSERT_TRUE(writer.Begin(step, attempt, state.plan()).ok());
  for (size_t i = 0; i < state.plan().size(); ++i) writer.Write(i, state.tensor(i));
  writer.Seal();
}

std::vector<uint64_t> Steps(std::span<const std::byte> arena) {
  std::vector<uint64_t> steps;
  for (const SealedSnapshot& sealed : ArenaReader(arena).ListSealed()) steps.push_back(sealed.step);
  return steps;
}

bool Holds(std::span<const std::byte> arena, uint64_t step, const State& state) {
  const Result<ArenaReader::View> view = ArenaReader(arena).Open(step);
  return view.ok() && view->plan == state.plan() && state.Equals(view->tensors);
}

class Arena : public testing::Test {
 protected:
  Memory memory_{ArenaBytesFor(SmallPlan())};
  std::span<std::byte> arena_ = memory_.bytes();
  ArenaWriter writer_{arena_};
};

TEST_F(Arena, GivesBackWhatWasSealed) {
  const State one(SmallPlan(), 1), two(SmallPlan(), 2);
  EXPECT_EQ(ArenaReader(arena_).Open(5).status().code(), Code::kNotFound);
  Save(writer_, one, 5);
  Save(writer_, two, 10, 3);
  EXPECT_EQ(Steps(arena_), (std::vector<uint64_t>{10, 5}));
  EXPECT_EQ(ArenaReader(arena_).ListSealed()[0].attempt, 3u);
  EXPECT_TRUE(Holds(arena_, 5, one));
  EXPECT_TRUE(Holds(arena_, 10, two));
  EXPECT_EQ(*ArenaReader(arena_).Plan(10), SmallPlan());
  const Result<LoadedState> copy = ArenaReader(arena_).Copy(10);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_TRUE(two.Equals(copy->Tensors()));
}

TEST_F(Arena, IsReadIntoGivenMemoryOnlyForTheSamePlan) {
  const State saved(SmallPlan(), 1);
  Save(writer_, saved, 5);
  State target(SmallPlan(), 9);
  ASSERT_TRUE(ArenaReader(arena_).CopyInto(5, target.plan(), target.Writable()).ok());
  EXPECT_TRUE(saved.Equals(target.Tensors()));

  std::vector<TensorInfo> other = SmallPlan().tensors();
  other[1].dtype = "I32";
  State wrong(*StatePlan::Create(other), 9);
  const Status status = ArenaReader(arena_).CopyInto(5, wrong.plan(), wrong.Writable());
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("is I32 here and F32 there"), std::string::npos) << status;
}

// More threads than there are chunks is fine, and damage is found by whichever thread meets it.
TEST_F(Arena, IsReadBySeveralThreadsAsByOne) {
  const State saved(SmallPlan(), 1);
  Save(writer_, saved, 5);
  for (size_t threads = 1; threads <= 9; ++threads) {
    State target(SmallPlan(), 9);
    ASSERT_TRUE(ArenaReader(arena_).CopyInto(5, target.plan(), target.Writable(), threads).ok());
    EXPECT_TRUE(saved.Equals(target.Tensors())) << threads << " threads";
  }
  const Result<ArenaReader::View> view = ArenaReader(arena_).Open(5);
  ASSERT_TRUE(view.ok()) << view.status();
  for (const std::span<const std::byte> tensor : view->tensors) {
    if (tensor.empty()) continue;
    auto* last = const_cast<std::byte*>(&tensor.back());
    *last ^= std::byte{1};
    for (size_t threads = 1; threads <= 4; ++threads) {
      State target(SmallPlan(), 9);
      EXPECT_EQ(ArenaReader(arena_).CopyInto(5, target.plan(), target.Writable(), threads).code(),
                Code::kDataLoss);
    }
    *last ^= std::byte{1};
  }
}

TEST_F(Arena, KeepsTheNewestSealedWhileTheNextIsWritten) {
  const State state(SmallPlan(), 1);
  Save(writer_, state, 5);
  Save(writer_, state, 10);
  Save(writer_, state, 12);
  ASSERT_TRUE(writer_.Begin(15, 1, SmallPlan()).ok());
  EXPECT_EQ(Steps(arena_), (std::vector<uint64_t>{12, 10}));
  writer_.Write(0, State(SmallPlan(), 2).tensor(0));
  EXPECT_TRUE(Holds(arena_, 12, state));
  // A new writer (the process was started again) does not disturb it either.
  ArenaWriter next(arena_);
  Save(next, State(SmallPlan(), 3), 15, 2);
  EXPECT_EQ(Steps(arena_), (std::vector<uint64_t>{15, 12, 10}));
}

TEST_F(Arena, AfterARollBackTheStepBelowIsKept) {
  const State state(SmallPlan(), 1), again(SmallPlan(), 2);
  Save(writer_, state, 5);
  Save(writer_, state, 10);  // not complete on all ranks: the gang went back to 5
  Save(writer_, again, 10, 2);
  EXPECT_EQ(Steps(arena_), (std::vector<uint64_t>{10, 5}));
  EXPECT_TRUE(Holds(arena_, 10, again));
  writer_.DropAbove(5);
  EXPECT_EQ(Steps(arena_), std::vector<uint64_t>{5});
  writer_.DropAbove(0);
  EXPECT_TRUE(Steps(arena_).empty());
}

TEST_F(Arena, HoldsAStepOnce) {
  const State first(SmallPlan(), 1), second(SmallPlan(), 2);
  Save(writer_, first, 5);
  Save(writer_, second, 5);
  EXPECT_EQ(Steps(arena_), std::vector<uint64_t>{5});
  EXPECT_TRUE(Holds(arena_, 5, second));
}

TEST_F(Arena, APinnedSnapshotStaysUntilItIsLetGo) {
  const State state(SmallPlan(), 1);
  for (const uint64_t step : {5u, 10u, 15u}) Save(writer_, state, step);
  Result<SnapshotPin> pin = SnapshotPin::Take(arena_, 5, 1);
  ASSERT_TRUE(pin.ok()) << pin.status();
  Save(writer_, state, 20);
  EXPECT_EQ(Steps(arena_), (std::vector<uint64_t>{20, 15, 5})) << "the oldest is pinned";
  Result<SnapshotPin> second = SnapshotPin::Take(arena_, 15, 1);
  ASSERT_TRUE(second.ok()) << second.status();
  // One is the newest and the others are read: nothing may be taken, nothing is.
  EXPECT_EQ(writer_.Begin(25, 1, SmallPlan()).code(), Code::kUnavailable);
  EXPECT_EQ(Steps(arena_), (std::vector<uint64_t>{20, 15, 5}));
  const std::string process = ": process " + std::to_string(getpid());
  EXPECT_THAT(writer_.holders(), testing::AllOf(testing::HasSubstr("step 5" + process),
                                                testing::HasSubstr("step 15" + process)));
  { const SnapshotPin released = *std::move(pin); }
  Save(writer_, state, 25);
  EXPECT_EQ(Steps(arena_), (std::vector<uint64_t>{25, 20, 15}));
  EXPECT_EQ(SnapshotPin::Take(arena_, 5, 1).status().code(), Code::kNotFound);
  EXPECT_EQ(SnapshotPin::Take(arena_, 20, 2).status().code(), Code::kNotFound) << "another attempt";
}

TEST_F(Arena, ThePinOfADeadProcessHoldsNothing) {
  const State state(SmallPlan(), 1);
  for (const uint64_t step : {5u, 10u, 15u}) Save(writer_, state, step);
  Result<io::ForkedChild> child = io::ForkedChild::Start([](void*) { return 0; }, nullptr);
  ASSERT_TRUE(child.ok());
  const auto gone = static_cast<uint32_t>(child->pid());
  ASSERT_TRUE(child->Wait().ok());
  for (const auto slot : internal::SlotsOf(arena_)) ASSERT_TRUE(internal::AddPin(slot, gone));
  Save(writer_, state, 20);
  EXPECT_EQ(Steps(arena_), (std::vector<uint64_t>{20, 15, 10}));
}

TEST_F(Arena, ManyThreadsWriteWhatOneWrites) {
  const State state(SmallPlan(), 4);
  uint64_t step = 0;
  for (const size_t threads : {1u, 2u, 3u, 7u, 64u}) {
    ASSERT_TRUE(writer_.Begin(++step, 1, state.plan()).ok());
    writer_.WriteAll(state.Tensors(), threads);
    writer_.Seal();
    EXPECT_TRUE(Holds(arena_, step, state)) << threads << " threads";
  }
}

TEST_F(Arena, InASlotLieTheHashesOfTheSeal) {
  const State state(SmallPlan(), 4);
  Save(writer_, state, 5);
  const auto hashed = ArenaReader(arena_).InSlot(ArenaReader(arena_).ListSealed()[0].slot);
  ASSERT_TRUE(hashed.ok()) << hashed.status();
  EXPECT_TRUE(state.Equals(hashed->tensors));
  EXPECT_EQ(hashed->chunks, HashTensors(state.Tensors()));
  EXPECT_EQ(ArenaReader(arena_).InSlot(2).status().code(), Code::kNotFound);
}

TEST_F(Arena, RefusesAStateThatDoesNotFitAndKeepsWhatItHas) {
  const State state(SmallPlan(), 1);
  Save(writer_, state, 5);
  Save(writer_, state, 10);
  const StatePlan large = *StatePlan::Create({{"x", "U8", {1 << 22}}});
  EXPECT_EQ(writer_.Begin(15, 1, large).code(), Code::kResourceExhausted);
  EXPECT_EQ(Steps(arena_), (std::vector<uint64_t>{10, 5}));
  std::byte none[1];
  EXPECT_TRUE(Steps(std::span(none, 0)).empty());
}

TEST_F(Arena, HoldsStatesOfOddSizesAndOfNone) {
  for (const StatePlan& plan :
       {StatePlan(), *StatePlan::Create({{"a", "U8", {0}}, {"b", "F64", {}}, {"c", "U8", {1}}})}) {
    const State state(plan, 1);
    Save(writer_, state, 5);
    EXPECT_TRUE(Holds(arena_, 5, state));
  }
}

TEST_F(Arena, ATensorsDamageIsNamed) {
  const State state(SmallPlan(), 1);
  Save(writer_, state, 5);
  const auto tensor = ArenaReader(arena_).Open(5)->tensors[1];
  arena_[static_cast<size_t>(tensor.data() - arena_.data()) + kChunkBytes + 3] ^= std::byte{1};
  for (const Status& status :
       {ArenaReader(arena_).Open(5).status(), ArenaReader(arena_).Copy(5).status()}) {
    EXPECT_EQ(status.code(), Code::kDataLoss);
    EXPECT_NE(status.message().find("step 5, tensor weight, chunk 1"), std::string::npos) << status;
  }
}

// Every byte that a snapshot depends on: what is loaded is exact, and a flip in the tensors, the
// plan or the table is always found. A flip in one of the two headers leaves the other.
TEST_F(Arena, NoFlippedBitIsEverLoaded) {
  const State state(SmallPlan(), 1);
  Save(writer_, state, 5);
  const size_t plan_bytes = SmallPlan().Encode().size();
  std::vector<std::pair<size_t, size_t>> used = {
      {0, 128}, {4096, 128}, {8192, plan_bytes}, {(8192 + plan_bytes + 63) / 64 * 64, 4 * 32}};
  const size_t headers = 2;
  const Result<ArenaReader::View> whole = ArenaReader(arena_).Open(5);
  for (const auto tensor : whole->tensors) {
    if (tensor.empty()) continue;
    used.emplace_back(static_cast<size_t>(tensor.data() - arena_.data()), tensor.size());
  }
  Random random(11);
  for (int i = 0; i < 2'000; ++i) {
    const size_t part = random.Below(used.size());
    const uint64_t bit = used[part].first * 8 + random.Below(used[part].second * 8);
    const std::byte mask{static_cast<unsigned char>(1u << bit % 8)};
    arena_[bit / 8] ^= mask;
    const Result<ArenaReader::View> view = ArenaReader(arena_).Open(5);
    if (part < headers) {
      ASSERT_TRUE(view.ok() && state.Equals(view->tensors)) << "bit " << bit;
    } else {
      ASSERT_FALSE(view.ok()) << "bit " << bit;
    }
    arena_[bit / 8] ^= mask;
  }
  EXPECT_TRUE(Holds(arena_, 5, state));
}

TEST_F(Arena, CutAnywhereItIsRefusedNotRead) {
  Save(writer_, State(SmallPlan(), 1), 5);
  Random random(3);
  for (int i = 0; i < 300; ++i) {
    const auto cut = arena_.first(random.Below(arena_.size()));
    const std::vector<std::byte> copy(cut.begin(), cut.end());  // so that a sanitizer sees its end
    const Result<ArenaReader::View> view = ArenaReader(copy).Open(5);
    if (view.ok()) {
      ASSERT_TRUE(State(SmallPlan(), 1).Equals(view->tensors));
    }
  }
}

TEST(CopyChunk, IsTheSameHashAndBytesEveryWay) {
  Random random(5);
  alignas(64) static std::byte to[kChunkBytes];
  std::vector<std::byte> from(kChunkBytes);
  for (std::byte& byte : from) byte = std::byte{static_cast<unsigned char>(random.Next())};
  for (const size_t bytes : {0ul, 1ul, 31ul, 32ul, 127ul, 4095ul, 4096ul, 4097ul, 70'001ul,
                             kChunkBytes - 1, kChunkBytes}) {
    const auto source = std::span<const std::byte>(from).first(bytes);
    std::memset(to, 0, sizeof(to));
    const uint64_t hash = HashChunk(source);
    EXPECT_EQ(CopyChunkOut(to, source), hash);
    EXPECT_EQ(std::memcmp(to, from.data(), bytes), 0) << bytes;
    std::memset(to, 0, sizeof(to));
    EXPECT_EQ(CopyChunkIn(to, source), hash);
    EXPECT_EQ(std::memcmp(to, from.data(), bytes), 0) << bytes;
    EXPECT_TRUE(bytes == kChunkBytes || to[bytes] == std::byte{0}) << "wrote past the end";
    for (const CopyVariant& variant : CopyVariants()) {
      std::memset(to, 0, sizeof(to));
      const char* chars = reinterpret_cast<const char*>(source.data());
      EXPECT_EQ(variant.copy_out(reinterpret_cast<char*>(to), chars, bytes), hash) << variant.name;
      EXPECT_EQ(std::memcmp(to, from.data(), bytes), 0) << variant.name << ", " << bytes;
    }
  }
}

}  // namespace
}  // namespace longhaul::checkpoint::arena_test
