// Damage of every kind in every tier: always found, never loaded, and a restore ends in the newest
// good state.
//
// A trial builds a small run: two ranks, each with an arena, its copy in a peer's arena, and three
// committed checkpoints of rising steps on disk. Then one thing goes wrong somewhere: a flipped
// bit, a file or transfer cut at any byte, a disk that is full at any byte, a write that fails, a
// writer that is killed midway, one that copies guarded memory too. Then the state is restored as a
// run does it: newest step first, of a step memory, peer, disk, every rank the same step.
//
//   injection_test                        some hundred of each kind, for every build
//   LONGHAUL_INJECTIONS=10000 injection_test   as many in all
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/text.h"
#include "checkpoint/arena.h"
#include "checkpoint/directory.h"
#include "checkpoint/internal/slot.h"
#include "checkpoint/peer/transfer.h"
#include "checkpoint/testing.h"
#include "io/memory/write_guard.h"
#include "io/process/forked_child.h"
#include "sim/crash_file_system.h"

namespace longhaul::checkpoint {
namespace {

using testing_support::ManifestOf;
using testing_support::State;
using testing_support::TinyPlan;

constexpr char kPath[] = "/run/checkpoints";
constexpr uint32_t kRanks = 2;
constexpr uint64_t kSteps[] = {10, 20, 30};  // committed; the last two are in memories too

uint64_t Seed(uint64_t step, uint32_t rank) { return step * 10 + rank; }

// An arena that a forked child can write to.
class SharedArena {
 public:
  SharedArena() : size_(ArenaBytesFor(TinyPlan())) {
    void* data = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(data != MAP_FAILED);
    data_ = static_cast<std::byte*>(data);
  }
  ~SharedArena() { munmap(data_, size_); }
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;
  std::span<std::byte> bytes() { return {data_, size_}; }

 private:
  size_t size_;
  std::byte* data_ = nullptr;
};

void SealIn(std::span<std::byte> arena, const State& state, uint64_t step) {
  ArenaWriter writer(arena);
  ASSERT_TRUE(writer.Begin(step, 1, state.plan()).ok());
  writer.WriteAll(state.Tensors(), 1);
  writer.Seal();
}

Status Save(CheckpointDirectory& directory, uint64_t step) {
  Manifest order = ManifestOf(step, 1, kRanks);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const State state(TinyPlan(), Seed(step, rank));
    ASSIGN_OR_RETURN(const PieceFile piece,
                     directory.WritePiece(step, 1, rank, kRanks, state.plan(), state.Tensors()));
    order.files.push_back(piece);
  }
  return directory.Commit(order);
}

class SmallRun {
 public:
  SmallRun() {
    CHECK(files_.MakeDirectories("/run").ok());
    for (const uint64_t step : kSteps) CHECK(Save(directory_, step).ok());
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      for (const uint64_t step : {20u, 30u}) {
        const State state(TinyPlan(), Seed(step, rank));
        SealIn(own_[rank].bytes(), state, step);
        SealIn(peer_[rank].bytes(), state, step);
      }
    }
  }

  // What a restore ends in: the step, and what was refused on the way. Fails the test when
  // anything is loaded that isn't exactly the state of that step.
  struct Outcome {
    uint64_t step = 0;
    std::vector<std::string> refused;  // "tier step rank"
  };
  Outcome Restore() {
    Outcome outcome;
    for (const uint64_t step : {40u, 30u, 20u, 10u}) {
      bool all = true;
      for (uint32_t rank = 0; rank < kRanks; ++rank) all = Load(step, rank, outcome) && all;
      if (!all) continue;
      outcome.step = step;
      return outcome;
    }
    return outcome;
  }

  sim::CrashFileSystem& files() { return files_; }
  CheckpointDirectory& directory() { return directory_; }
  SharedArena& own(uint32_t rank) { return own_[rank]; }
  SharedArena& peer(uint32_t rank) { return peer_[rank]; }

 private:
  bool Load(uint64_t step, uint32_t rank, Outcome& outcome) {
    const State wanted(TinyPlan(), Seed(step, rank));
    const auto judge = [&](const char* tier, bool expected, const Status& status,
                           const State& loaded) {
      if (status.ok()) {
        EXPECT_TRUE(wanted.Equals(loaded.Tensors())) << tier << " gave a wrong state";
      } else if (expected) {
        outcome.refused.push_back(tier + (" " + std::to_string(step)) + " " + std::to_string(rank));
      }
      return status.ok();
    };
    State target(TinyPlan(), 999);
    const bool in_memory = step == 20 || step == 30;
    for (const bool own : {true, false}) {
      const auto arena = (own ? own_ : peer_)[rank].bytes();
      const Status status = ArenaReader(arena).CopyInto(step, target.plan(), target.Writable());
      if (judge(own ? "memory" : "peer", in_memory, status, target)) return true;
    }
    const Result<LoadedState> piece = directory_.ReadPiece(step, 1, rank);
    if (piece.ok()) {
      EXPECT_TRUE(wanted.Equals(piece->Tensors())) << "disk gave a wrong state";
      return true;
    }
    if (step <= 30) outcome.refused.push_back("disk " + std::to_string(step));
    return false;
  }

  sim::CrashFileSystem files_;
  CheckpointDirectory directory_{files_, kPath};
  std::array<SharedArena, kRanks> own_;
  std::array<SharedArena, kRanks> peer_;
};

// Every file of a run's checkpoints.
std::vector<std::string> FilesOf(sim::CrashFileSystem& files) {
  std::vector<std::string> paths;
  const auto steps = files.List(kPath);
  for (const std::string& step : *steps) {
    const auto names = files.List(kPath + ("/" + step));
    for (const std::string& name : *names) paths.push_back(kPath + ("/" + step) + "/" + name);
  }
  return paths;
}

// The parts of an arena that a snapshot depends on: all but pins and the room between the parts.
std::vector<std::pair<size_t, size_t>> PartsOf(std::span<std::byte> arena, uint64_t step) {
  const auto view = ArenaReader(arena).Open(step);
  const size_t slot_bytes = internal::SlotsOf(std::span<const std::byte>(arena))[0].size();
  const size_t at = view->snapshot.slot * slot_bytes;
  const internal::SlotLayout layout = internal::LayoutOf(view->plan);
  std::vector<std::pair<size_t, size_t>> parts = {
      {at + internal::kPlanAt, layout.plan_bytes},
      {at + layout.table_at, layout.chunks * sizeof(internal::ChunkEntry)}};
  for (const auto tensor : view->tensors) {
    if (tensor.empty()) continue;
    parts.emplace_back(static_cast<size_t>(tensor.data() - arena.data()), tensor.size());
  }
  return parts;
}

size_t Trials() {
  const char* given = std::getenv("LONGHAUL_INJECTIONS");
  const Result<uint64_t> wanted = ParseUint64(given == nullptr ? "" : given);
  constexpr size_t kKinds =
      11;  // here and in service/agent/snapshot_keeper/snapshot_keeper_test.cc
  return wanted.ok() ? (*wanted + kKinds - 1) / kKinds : 60;
}

// A flipped bit in one memory: found there, the other memory serves the same step.
TEST(Injection, AFlippedBitInAMemoryIsFoundAndTheOtherMemoryServes) {
  Random random(1);
  for (size_t i = 0; i < Trials(); ++i) {
    SmallRun run;
    const uint32_t rank = static_cast<uint32_t>(random.Below(kRanks));
    const bool own = random.Below(2) == 0;
    const auto arena = (own ? run.own(rank) : run.peer(rank)).bytes();
    const auto parts = PartsOf(arena, 30);
    const auto [at, bytes] = parts[random.Below(parts.size())];
    const uint64_t bit = at * 8 + random.Below(bytes * 8);
    arena[bit / 8] ^= std::byte{static_cast<unsigned char>(1u << bit % 8)};
    EXPECT_FALSE(ArenaReader(arena).Open(30).ok()) << "bit " << bit << " of trial " << i;
    const SmallRun::Outcome outcome = run.Restore();
    ASSERT_EQ(outcome.step, 30u) << "trial " << i;
    const std::vector<std::string> wanted = {"memory 30 " + std::to_string(rank)};
    if (!own) continue;
    ASSERT_EQ(outcome.refused, wanted) << "trial " << i;
  }
}

// Four ranks, of which 0 and 2, and 1 and 3, hold the same: ranks 0 and 3 write, as their nodes
// would. Damage of any kind anywhere: both ranks that a file serves are refused the step, and end
// in the one below.
TEST(Injection, DamageOfAFileThatSeveralRanksShareIsFoundForAll) {
  Random random(10);
  constexpr uint32_t kWorld = 4;
  const auto save = [](CheckpointDirectory& directory, uint64_t step) -> Status {
    Manifest order = ManifestOf(step, 1, kWorld);
    for (const uint32_t rank : {0u, 3u}) {
      const State state(TinyPlan(), Seed(step, rank % 2));
      ASSIGN_OR_RETURN(PieceFile piece,
                       directory.WritePiece(step, 1, rank, kWorld, TinyPlan(), state.Tensors()));
      piece.also = {rank == 0 ? 2u : 1u};
      order.files.push_back(piece);
    }
    return directory.Commit(order);
  };
  // The newest step that all ranks can load; fails the test when one loads anything else.
  const auto restored = [](CheckpointDirectory& directory) {
    for (const uint64_t step : {30u, 20u, 10u}) {
      uint32_t loaded = 0;
      for (uint32_t rank = 0; rank < kWorld; ++rank) {
        const Result<LoadedState> piece = directory.ReadPiece(step, 1, rank);
        if (!piece.ok()) continue;
        ++loaded;
        EXPECT_TRUE(State(TinyPlan(), Seed(step, rank % 2)).Equals(piece->Tensors()));
      }
      EXPECT_TRUE(loaded % 2 == 0) << "a file serves two ranks";
      if (loaded == kWorld) return step;
    }
    return uint64_t{0};
  };
  for (size_t i = 0; i < Trials(); ++i) {
    sim::CrashFileSystem files;
    ASSERT_TRUE(files.MakeDirectories("/run").ok());
    CheckpointDirectory directory(files, kPath);
    ASSERT_TRUE(save(directory, 10).ok() && save(directory, 20).ok());
    const uint64_t how = random.Below(4);
    if (how == 0) files.SetFreeBytes(random.Below(9'000));
    if (how == 1) files.FailOperation(random.Below(22));
    const Status saved = save(directory, 30);
    if (how >= 2) {
      ASSERT_TRUE(saved.ok());
      const auto names = files.List(kPath + std::string("/step-000000030.e1"));
      const std::string path =
          kPath + std::string("/step-000000030.e1/") + (*names)[random.Below(names->size())];
      if (how == 2) {
        files.FlipBit(path, random.Below(*files.Size(path) * 8));
      } else {
        const auto whole = *files.ReadAll(path, 1 << 20);
        const auto cut = std::span(whole).first(random.Below(whole.size()));
        ASSERT_TRUE(io::WriteFileAtomically(files, path, cut).ok());
      }
      ASSERT_EQ(restored(directory), 20u) << path << " in trial " << i;
    } else {
      const uint64_t step = restored(directory);
      ASSERT_TRUE(saved.ok() ? step == 30 : step == 20 || step == 30) << "trial " << i;
    }
  }
}

// Bits in several tiers at once: the newest step of which every rank has one good copy.
TEST(Injection, DamageInEveryTierEndsInTheNewestGoodStep) {
  Random random(2);
  size_t fell = 0;
  for (size_t i = 0; i < Trials(); ++i) {
    SmallRun run;
    const uint32_t rank = static_cast<uint32_t>(random.Below(kRanks));
    for (SharedArena* arena : {&run.own(rank), &run.peer(rank)}) {
      const auto parts = PartsOf(arena->bytes(), 30);
      const auto [at, bytes] = parts[random.Below(parts.size())];
      const uint64_t bit = at * 8 + random.Below(bytes * 8);
      arena->bytes()[bit / 8] ^= std::byte{static_cast<unsigned char>(1u << bit % 8)};
    }
    // Half of the time the file on disk too.
    const bool disk_too = random.Below(2) == 0;
    if (disk_too) {
      const std::string file =
          kPath + ("/" + CheckpointDirectory::NameOf(30, 1)) + "/" + PieceName(rank, kRanks);
      run.files().FlipBit(file, random.Below(*run.files().Size(file) * 8));
    }
    ASSERT_EQ(run.Restore().step, disk_too ? 20u : 30u) << "trial " << i;
    fell += disk_too;
  }
  EXPECT_GT(fell, 0u);
}

void EmptyMemories(SmallRun& run) {
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ArenaWriter(run.own(rank).bytes()).DropAbove(0);
    ArenaWriter(run.peer(rank).bytes()).DropAbove(0);
  }
}

TEST(Injection, AFlippedBitInAnyFileIsFoundAndTheStepBelowServes) {
  Random random(3);
  for (size_t i = 0; i < Trials(); ++i) {
    SmallRun run;
    EmptyMemories(run);
    const std::vector<std::string> paths = FilesOf(run.files());
    const std::string& path = paths[random.Below(paths.size())];
    const bool newest = path.find(CheckpointDirectory::NameOf(30, 1)) != std::string::npos;
    run.files().FlipBit(path, random.Below(*run.files().Size(path) * 8));
    ASSERT_EQ(run.Restore().step, newest ? 20u : 30u) << path << " in trial " << i;
  }
}

TEST(Injection, AFileCutAtAnyByteIsFoundAndTheStepBelowServes) {
  Random random(4);
  for (size_t i = 0; i < Trials(); ++i) {
    SmallRun run;
    EmptyMemories(run);
    const std::vector<std::string> paths = FilesOf(run.files());
    const std::string& path = paths[random.Below(paths.size())];
    const bool newest = path.find(CheckpointDirectory::NameOf(30, 1)) != std::string::npos;
    const auto whole = *run.files().ReadAll(path, 1 << 20);
    const auto cut = std::span(whole).first(random.Below(whole.size()));
    ASSERT_TRUE(io::WriteFileAtomically(run.files(), path, cut).ok());
    ASSERT_EQ(run.Restore().step, newest ? 20u : 30u) << path << " in trial " << i;
  }
}

TEST(Injection, AFullDiskOrAFailedWriteIsReportedAndLosesNothing) {
  Random random(5);
  size_t failed = 0;
  for (size_t i = 0; i < Trials(); ++i) {
    SmallRun run;
    EmptyMemories(run);
    if (random.Below(2) == 0) {
      run.files().SetFreeBytes(random.Below(16'000));
    } else {
      run.files().FailOperation(random.Below(40));
    }
    const Status saved = Save(run.directory(), 40);
    failed += !saved.ok();
    const uint64_t step = run.Restore().step;
    // A failure of the last sync comes after the rename, which readers see already.
    ASSERT_TRUE(saved.ok() ? step == 40 : step == 30 || step == 40) << "trial " << i;
    ASSERT_TRUE(saved.code() != Code::kResourceExhausted || step == 30);
  }
  EXPECT_GT(failed, Trials() / 2);
}

// One bit or a cut on the way to a peer: refused, and the peer keeps what it had.
TEST(Injection, ATransferDamagedOrCutAnywhereIsNotSealed) {
  Random random(6);
  for (size_t i = 0; i < Trials(); ++i) {
    SmallRun run;
    const State next(TinyPlan(), Seed(40, 0));
    SealIn(run.own(0).bytes(), next, 40);
    const size_t slot = ArenaReader(run.own(0).bytes()).ListSealed()[0].slot;
    const auto snapshot = *ArenaReader(run.own(0).bytes()).InSlot(slot);
    PeerMessage offer;
    offer.kind = PeerKind::kOffer;
    offer.key = {"job", 0, 40, 1};
    offer.plan = snapshot.plan;
    offer.chunks = snapshot.chunks;
    std::vector<std::byte> wire;
    const WriteBytes write = [&wire](std::span<const std::byte> bytes) {
      wire.insert(wire.end(), bytes.begin(), bytes.end());
      return Status();
    };
    ASSERT_TRUE(SendPeerMessage(offer, write).ok() && SendSnapshotData(snapshot, write).ok());
    if (random.Below(2) == 0) {
      const uint64_t bit = random.Below(wire.size() * 8);
      wire[bit / 8] ^= std::byte{static_cast<unsigned char>(1u << bit % 8)};
    } else {
      wire.resize(random.Below(wire.size()));
    }
    size_t at = 0;
    const ReadBytes read = [&](std::span<std::byte> to) -> Status {
      if (to.size() > wire.size() - at) return Unavailable("hung up");
      std::copy_n(wire.begin() + static_cast<ptrdiff_t>(at), to.size(), to.begin());
      at += to.size();
      return {};
    };
    const auto received = ReceivePeerMessage(read);
    const bool sealed =
        received.ok() && ReceiveSnapshotData(*received, read, run.peer(0).bytes()).ok();
    ASSERT_FALSE(sealed) << "trial " << i;
    EXPECT_EQ(ArenaReader(run.peer(0).bytes()).Open(40).status().code(), Code::kNotFound);
    ASSERT_TRUE(ArenaReader(run.peer(0).bytes()).Open(30).ok()) << "trial " << i;
  }
}

// A writer that ends after any number of chunks: the slot it wrote to is not sealed, the newest
// sealed one is untouched. (arena_kill_test.cc kills at moments of the clock.)
TEST(Injection, AWriterKilledMidwayLosesOnlyItsOwnSnapshot) {
  Random random(7);
  for (size_t i = 0; i < Trials(); ++i) {
    SmallRun run;
    const uint64_t chunks = random.Below(TinyPlan().size());
    struct Work {
      std::span<std::byte> arena;
      const State* state;
      uint64_t tensors;
    };
    const State next(TinyPlan(), Seed(40, 0));
    Work work{run.own(0).bytes(), &next, chunks};
    auto child = io::ForkedChild::Start(
        [](void* argument) {
          const Work& wanted = *static_cast<Work*>(argument);
          ArenaWriter writer(wanted.arena);
          if (!writer.Begin(40, 1, wanted.state->plan()).ok()) return 2;
          for (uint64_t k = 0; k < wanted.tensors; ++k) writer.Write(k, wanted.state->tensor(k));
          raise(SIGKILL);
          return 3;
        },
        &work);
    ASSERT_TRUE(child.ok());
    ASSERT_EQ(child->Wait().status().code(), Code::kAborted);
    const SmallRun::Outcome outcome = run.Restore();
    ASSERT_EQ(outcome.step, 30u) << "trial " << i;
    ASSERT_TRUE(outcome.refused.empty());
  }
}

// Turns every byte of a state.
void Spoil(State& state) {
  for (const auto tensor : state.Writable()) {
    for (std::byte& each : tensor) each = ~each;
  }
}

// Likewise of one that copies guarded memory behind a process that continues writing: what is
// sealed by then is the state of its beginning, whatever the moment of the kill.
TEST(Injection, AProcessKilledAmidAGuardedCopyLosesOnlyItsOwnSnapshot) {
  if (const auto guard = io::WriteGuard::Create(); !guard.ok()) GTEST_SKIP() << guard.status();
  Random random(8);
  size_t sealed = 0;
  for (size_t i = 0; i < Trials(); ++i) {
    SmallRun run;
    struct Work {
      std::span<std::byte> arena;
      State* state;
      uint64_t turns;
    };
    State next(TinyPlan(), Seed(40, 0));
    Work work{run.own(0).bytes(), &next, random.Below(20'000)};
    auto child = io::ForkedChild::Start(
        [](void* argument) {
          const Work& wanted = *static_cast<Work*>(argument);
          auto guard = io::WriteGuard::Create();
          ArenaWriter writer(wanted.arena);
          if (!guard.ok() || !writer.Begin(40, 1, wanted.state->plan()).ok()) return 2;
          if (!writer.StartLiveCopy(wanted.state->Tensors(), *guard).ok()) return 3;
          Spoil(*wanted.state);
          for (volatile uint64_t turn = 0; turn < wanted.turns;) turn = turn + 1;
          raise(SIGKILL);
          return 4;
        },
        &work);
    ASSERT_TRUE(child.ok());
    ASSERT_EQ(child->Wait().status().code(), Code::kAborted) << "trial " << i;
    if (const auto view = ArenaReader(run.own(0).bytes()).Open(40); view.ok()) {
      ASSERT_TRUE(State(TinyPlan(), Seed(40, 0)).Equals(view->tensors)) << "trial " << i;
      ++sealed;
    }
    const SmallRun::Outcome outcome = run.Restore();
    ASSERT_EQ(outcome.step, 30u) << "trial " << i;
    ASSERT_TRUE(outcome.refused.empty());
  }
  EXPECT_GT(sealed, 0u);
}

TEST(Injection, AFlippedBitInAGuardedSnapshotIsFoundAndTheStepBelowServes) {
  auto guard = io::WriteGuard::Create();
  if (!guard.ok()) GTEST_SKIP() << guard.status();
  Random random(9);
  for (size_t i = 0; i < Trials(); ++i) {
    SmallRun run;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      State next(TinyPlan(), Seed(40, rank));
      ArenaWriter writer(run.own(rank).bytes());
      ASSERT_TRUE(writer.Begin(40, 1, next.plan()).ok());
      ASSERT_TRUE(writer.StartLiveCopy(next.Tensors(), *guard).ok());
      Spoil(next);
      ASSERT_TRUE(writer.Finish().ok());
    }
    const bool damaged = random.Below(4) != 0;
    if (damaged) {
      const auto arena = run.own(static_cast<uint32_t>(random.Below(kRanks))).bytes();
      const auto parts = PartsOf(arena, 40);
      const auto [at, bytes] = parts[random.Below(parts.size())];
      const uint64_t bit = at * 8 + random.Below(bytes * 8);
      arena[bit / 8] ^= std::byte{static_cast<unsigned char>(1u << bit % 8)};
    }
    ASSERT_EQ(run.Restore().step, damaged ? 30u : 40u) << "trial " << i;
  }
}

}  // namespace
}  // namespace longhaul::checkpoint
