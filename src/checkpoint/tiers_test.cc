// Checkpoints on the second tier: copied to an object store and to a directory, brought back, and
// damaged in every way on the road.
//
//   LONGHAUL_INJECTIONS=10000 tiers_test   as many damages in all; some hundred without
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "checkpoint/directory.h"
#include "checkpoint/retention/retention.h"
#include "checkpoint/testing.h"
#include "objects/packed.h"
#include "objects/testing.h"
#include "sim/crash_file_system.h"

namespace longhaul::checkpoint {
namespace {

using objects::Answer;
using objects::FakeBucket;
using objects::Packing;
using testing_support::ManifestOf;
using testing_support::SmallPlan;
using testing_support::State;
using testing_support::TinyPlan;

constexpr char kLocal[] = "/run/checkpoints";
constexpr char kRemote[] = "s3://models/runs/gpt";
constexpr uint32_t kRanks = 2;

uint64_t Seed(uint64_t step, uint32_t rank) { return step * 10 + rank; }

Status Save(CheckpointDirectory& directory, const StatePlan& plan, uint64_t step) {
  Manifest order = ManifestOf(step, 1, kRanks);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const State state(plan, Seed(step, rank));
    ASSIGN_OR_RETURN(const PieceFile piece,
                     directory.WritePiece(step, 1, rank, kRanks, plan, state.Tensors()));
    order.files.push_back(piece);
  }
  return directory.Commit(order);
}

Status CopyAll(CheckpointDirectory& from, uint64_t step, CheckpointDirectory& to,
               const CheckpointDirectory::Pace& pace = {}) {
  ASSIGN_OR_RETURN(const Manifest manifest, from.Read(step, 1));
  for (const PieceFile& file : manifest.files) {
    RETURN_IF_ERROR(to.TakeShard(from, manifest, file, pace));
  }
  return to.Commit(manifest);
}

// A disk and an object store, the store through files with small parts, shards packed or not.
struct Tiers {
  explicit Tiers(Packing packing = Packing::kReadOnly) : packed(*store, packing) {
    CHECK(disk.MakeDirectories("/run").ok());
  }
  sim::CrashFileSystem disk;
  std::shared_ptr<FakeBucket> bucket = std::make_shared<FakeBucket>();
  std::unique_ptr<io::FileSystem> store = objects::FakeFiles(bucket, 4096);
  objects::PackedFiles packed;
  CheckpointDirectory local{disk, kLocal};
  CheckpointDirectory remote{packed, kRemote};
};
Packing Either(Random& random) {
  return random.Below(2) == 0 ? Packing::kReadOnly : Packing::kZstd;
}

// The newest step of a directory whose every byte is as it was saved; what is damaged is passed
// over. Fails the test when anything else is loaded.
uint64_t NewestGood(CheckpointDirectory& directory, const StatePlan& plan) {
  const auto committed = directory.List();
  if (!committed.ok()) return 0;
  for (const Manifest& manifest : *committed) {
    bool good = true;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      const auto loaded = directory.ReadPiece(manifest.step, 1, rank);
      good = good && loaded.ok();
      if (!loaded.ok()) continue;
      EXPECT_TRUE(State(plan, Seed(manifest.step, rank)).Equals(loaded->Tensors()))
          << "a wrong state was loaded";
    }
    if (good) return manifest.step;
  }
  return 0;
}

size_t Trials(size_t kinds) {
  const char* given = std::getenv("LONGHAUL_INJECTIONS");
  const Result<uint64_t> wanted = ParseUint64(given == nullptr ? "" : given);
  return wanted.ok() ? (*wanted + kinds - 1) / kinds : 60;
}
constexpr size_t kKinds = 8;

TEST(Tiers, AnObjectStoreHasTheSameBytesAndGivesThemBack) {
  Tiers tiers;
  ASSERT_TRUE(Save(tiers.local, SmallPlan(), 10).ok());
  ASSERT_TRUE(CopyAll(tiers.local, 10, tiers.remote).ok());
  EXPECT_EQ(NewestGood(tiers.remote, SmallPlan()), 10u);
  for (const char* name : {"rank-00000-of-00002.safetensors", "MANIFEST"}) {
    const std::string step = "/step-000000010.e1/" + std::string(name);
    const auto bytes = tiers.disk.ReadAll(kLocal + step, 1u << 30);
    ASSERT_TRUE(bytes.ok());
    const std::string& there = tiers.bucket->objects.at("models/runs/gpt" + step);
    EXPECT_TRUE(std::ranges::equal(*bytes, std::as_bytes(std::span(there)))) << name;
  }
  ASSERT_TRUE(tiers.local.Remove(10, 1).ok());
  EXPECT_EQ(NewestGood(tiers.local, SmallPlan()), 0u);
  ASSERT_TRUE(CopyAll(tiers.remote, 10, tiers.local).ok());
  EXPECT_EQ(NewestGood(tiers.local, SmallPlan()), 10u);
  ASSERT_TRUE(tiers.local.Verify(*tiers.local.Read(10, 1)).ok());
}

// Numbers of a state, as weights are.
StatePlan SomePlan() {
  return *StatePlan::Create({{"a", "F32", {3, 100'000}}, {"b", "BF16", {700}}, {"c", "F32", {0}}});
}

TEST(Tiers, APackedCopyIsVerifiedAndComesBackAsItWas) {
  Tiers tiers(Packing::kZstd);
  ASSERT_TRUE(Save(tiers.local, SomePlan(), 10).ok());
  ASSERT_TRUE(CopyAll(tiers.local, 10, tiers.remote).ok());
  EXPECT_TRUE(tiers.bucket->objects.contains(
      "models/runs/gpt/step-000000010.e1/rank-00001-of-00002.safetensors.zst"));
  EXPECT_EQ(tiers.bucket->objects.size(), 3u);
  EXPECT_EQ(*tiers.remote.Read(10, 1), *tiers.local.Read(10, 1)) << "the manifest is the same";
  EXPECT_TRUE(tiers.remote.Verify(*tiers.remote.Read(10, 1)).ok());
  EXPECT_EQ(NewestGood(tiers.remote, SomePlan()), 10u);
  const std::string shard = "/step-000000010.e1/rank-00001-of-00002.safetensors";
  const auto before = tiers.disk.ReadAll(kLocal + shard, 1u << 30);
  ASSERT_TRUE(tiers.local.Remove(10, 1).ok());
  ASSERT_TRUE(CopyAll(tiers.remote, 10, tiers.local).ok());
  EXPECT_EQ(*tiers.disk.ReadAll(kLocal + shard, 1u << 30), *before) << "byte for byte";
  ASSERT_TRUE(tiers.remote.Remove(10, 1).ok());
  EXPECT_TRUE(tiers.bucket->objects.empty());
}

TEST(Tiers, WhatIsThereAlreadyIsNotSentAgain) {
  Tiers tiers;
  ASSERT_TRUE(Save(tiers.local, SmallPlan(), 10).ok());
  const Manifest manifest = *tiers.local.Read(10, 1);
  ASSERT_TRUE(tiers.remote.TakeShard(tiers.local, manifest, manifest.files[0]).ok());
  uint64_t paced = 0;
  ASSERT_TRUE(CopyAll(tiers.local, 10, tiers.remote, [&](uint64_t bytes) {
                paced += bytes;
                return true;
              }).ok());
  EXPECT_EQ(paced, SmallPlan().total_bytes()) << "of rank 1 alone";
}

TEST(Tiers, ACopyThatIsStoppedNeverCounts) {
  Tiers tiers;
  ASSERT_TRUE(Save(tiers.local, SmallPlan(), 10).ok());
  int left = 3;
  const auto pace = [&](uint64_t) { return left-- > 0; };
  EXPECT_EQ(CopyAll(tiers.local, 10, tiers.remote, pace).code(), Code::kCancelled);
  EXPECT_TRUE(tiers.remote.List()->empty());
  EXPECT_TRUE(tiers.bucket->uploads.empty());
}

// Retention there reads no tensor: what was copied just now is vouched for.
TEST(Tiers, RetentionKeepsTheNewestWithoutReadingThem) {
  Tiers tiers;
  for (const uint64_t step : {10u, 20u, 30u, 40u}) {
    ASSERT_TRUE(Save(tiers.local, TinyPlan(), step).ok());
    ASSERT_TRUE(CopyAll(tiers.local, step, tiers.remote).ok());
  }
  tiers.bucket->asked.clear();
  RetentionPolicy policy;
  policy.last = 2;
  policy.vouched = 40;
  ASSERT_TRUE(Collect(tiers.remote, policy, 2).ok());
  const auto left = tiers.remote.List();
  ASSERT_EQ(left->size(), 2u);
  EXPECT_EQ((*left)[1].step, 30u);
  for (const std::string& asked : tiers.bucket->asked) {
    EXPECT_FALSE(asked.starts_with("GET") && asked.ends_with(".safetensors")) << asked;
  }
}

// A bit flips anywhere on the disk: a copy of it never gets its manifest.
TEST(TierInjection, ADamagedCheckpointIsNotCopied) {
  Random random(1);
  for (size_t i = 0; i < Trials(kKinds); ++i) {
    Tiers tiers(Either(random));
    ASSERT_TRUE(Save(tiers.local, TinyPlan(), 10).ok());
    ASSERT_TRUE(Save(tiers.local, TinyPlan(), 20).ok());
    ASSERT_TRUE(CopyAll(tiers.local, 10, tiers.remote).ok());
    const auto names = tiers.disk.List(kLocal + std::string("/step-000000020.e1"));
    const std::string path =
        kLocal + std::string("/step-000000020.e1/") + (*names)[random.Below(names->size())];
    tiers.disk.FlipBit(path, random.Below(*tiers.disk.Size(path) * 8));
    EXPECT_EQ(CopyAll(tiers.local, 20, tiers.remote).code(), Code::kDataLoss) << "trial " << i;
    EXPECT_EQ(tiers.remote.List()->front().step, 10u);
    EXPECT_EQ(NewestGood(tiers.remote, TinyPlan()), 10u);
  }
}

// The same in the store, or an object cut or gone: never brought back, the one before it is.
TEST(TierInjection, ADamagedCopyIsFoundAndTheOneBeforeItServes) {
  Random random(2);
  for (size_t i = 0; i < Trials(kKinds); ++i) {
    Tiers tiers(Either(random));
    for (const uint64_t step : {10u, 20u}) {
      ASSERT_TRUE(Save(tiers.local, TinyPlan(), step).ok());
      ASSERT_TRUE(CopyAll(tiers.local, step, tiers.remote).ok());
      ASSERT_TRUE(tiers.local.Remove(step, 1).ok());
    }
    auto object = tiers.bucket->objects.lower_bound("models/runs/gpt/step-000000020.e1/");
    std::advance(object, static_cast<std::ptrdiff_t>(random.Below(3)));
    std::string& bytes = object->second;
    const uint64_t how = random.Below(4);
    if (how < 2) {
      const uint64_t bit = random.Below(bytes.size() * 8);
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    } else if (how == 2) {
      bytes.resize(random.Below(bytes.size()));
    } else {
      tiers.bucket->objects.erase(object);
    }
    EXPECT_FALSE(CopyAll(tiers.remote, 20, tiers.local).ok()) << "trial " << i;
    EXPECT_EQ(NewestGood(tiers.local, TinyPlan()), 0u);
    EXPECT_EQ(NewestGood(tiers.remote, TinyPlan()), 10u);
    EXPECT_TRUE(CopyAll(tiers.remote, 10, tiers.local).ok());
    EXPECT_EQ(NewestGood(tiers.local, TinyPlan()), 10u);
  }
}

// The copier is killed, or the store is full or away, at any request: what was committed stays, the
// new one isn't there in part, and the next try completes it.
TEST(TierInjection, ACopyCutAtAnyRequestLeavesWhatWasThere) {
  Random random(3);
  for (size_t i = 0; i < Trials(kKinds); ++i) {
    Tiers tiers(Either(random));
    ASSERT_TRUE(Save(tiers.local, TinyPlan(), 10).ok());
    ASSERT_TRUE(Save(tiers.local, TinyPlan(), 20).ok());
    ASSERT_TRUE(CopyAll(tiers.local, 10, tiers.remote).ok());
    const int status = std::array{507, 503, 403}[random.Below(3)];
    uint64_t left = random.Below(25);
    tiers.bucket->fault = [&](const std::string&, const std::string&) -> std::optional<Answer> {
      if (left == 0) return Answer{status, {}, "<Error><Code>Injected</Code></Error>"};
      --left;
      return std::nullopt;
    };
    const Status copied = CopyAll(tiers.local, 20, tiers.remote);
    tiers.bucket->fault = nullptr;
    const uint64_t newest = NewestGood(tiers.remote, TinyPlan());
    EXPECT_EQ(newest, tiers.remote.List()->front().step);
    EXPECT_TRUE(newest == 10 || newest == 20);
    EXPECT_TRUE(!copied.ok() || newest == 20);
    ASSERT_TRUE(CopyAll(tiers.local, 20, tiers.remote).ok());
    EXPECT_EQ(NewestGood(tiers.remote, TinyPlan()), 20u);
  }
}

// The answers themselves are wrong: bits flip in what the store says, whatever it says.
TEST(TierInjection, AWrongAnswerIsNeverLoaded) {
  Random random(4);
  size_t found = 0;
  for (size_t i = 0; i < Trials(kKinds); ++i) {
    Tiers tiers(Either(random));
    ASSERT_TRUE(Save(tiers.local, TinyPlan(), 10).ok());
    ASSERT_TRUE(CopyAll(tiers.local, 10, tiers.remote).ok());
    ASSERT_TRUE(tiers.local.Remove(10, 1).ok());
    uint64_t left = random.Below(8);
    bool flipped = false;
    tiers.bucket->alter = [&](const std::string& method, Answer& answer) {
      if (method != "GET" || answer.body.empty() || flipped || left-- > 0) return;
      flipped = true;
      const uint64_t bit = random.Below(answer.body.size() * 8);
      char& byte = answer.body[bit / 8];
      byte = static_cast<char>(byte ^ (1 << bit % 8));
    };
    const Status fetched = CopyAll(tiers.remote, 10, tiers.local);
    tiers.bucket->alter = nullptr;
    if (flipped && !fetched.ok()) ++found;
    const uint64_t newest = NewestGood(tiers.local, TinyPlan());
    EXPECT_TRUE(fetched.ok() ? newest == 10 : newest == 0) << fetched;
  }
  EXPECT_GT(found, 0u);
}

// The local disk is full while a checkpoint comes back.
TEST(TierInjection, AFetchOntoAFullDiskLeavesNothing) {
  Random random(5);
  for (size_t i = 0; i < Trials(kKinds); ++i) {
    Tiers tiers(Either(random));
    ASSERT_TRUE(Save(tiers.local, TinyPlan(), 10).ok());
    ASSERT_TRUE(CopyAll(tiers.local, 10, tiers.remote).ok());
    ASSERT_TRUE(tiers.local.Remove(10, 1).ok());
    tiers.disk.SetFreeBytes(random.Below(5'000));
    const Status fetched = CopyAll(tiers.remote, 10, tiers.local);
    EXPECT_EQ(fetched.code(), Code::kResourceExhausted) << "trial " << i;
    EXPECT_EQ(NewestGood(tiers.local, TinyPlan()), 0u);
    tiers.disk.SetFreeBytes(1u << 30);
    EXPECT_TRUE(CopyAll(tiers.remote, 10, tiers.local).ok());
    EXPECT_EQ(NewestGood(tiers.local, TinyPlan()), 10u);
  }
}

// A shared directory: no store to say what is whole. The machine loses power amid a copy.
TEST(TierInjection, ACopyToADirectoryCutAtAnyMomentNeverCounts) {
  Random random(6);
  size_t newest_seen[2] = {};
  for (size_t i = 0; i < Trials(kKinds); ++i) {
    Tiers tiers;
    sim::CrashFileSystem shared;
    ASSERT_TRUE(shared.MakeDirectories("/shared").ok() && shared.SyncDirectory("/").ok());
    ASSERT_TRUE(Save(tiers.local, TinyPlan(), 10).ok());
    ASSERT_TRUE(Save(tiers.local, TinyPlan(), 20).ok());
    const Packing packing = Either(random);
    objects::PackedFiles files(shared, packing);
    CheckpointDirectory remote(files, "/shared/gpt");
    ASSERT_TRUE(CopyAll(tiers.local, 10, remote).ok());
    const size_t before = shared.operations();
    ASSERT_TRUE(CopyAll(tiers.local, 20, remote).ok());
    const size_t after = shared.operations();
    const size_t at = before + random.Below(after - before + 1);
    shared.ForEachCrash(2, i, [&](size_t operations, sim::CrashFileSystem& survivor) {
      if (operations != at) return;
      objects::PackedFiles left(survivor, packing);
      CheckpointDirectory again(left, "/shared/gpt");
      const uint64_t newest = NewestGood(again, TinyPlan());
      ASSERT_TRUE(newest == 10 || newest == 20) << newest << " at operation " << at;
      EXPECT_EQ(newest, again.List()->front().step) << "what is listed is good";
      ++newest_seen[newest == 20];
      ASSERT_TRUE(CopyAll(tiers.local, 20, again).ok());
      EXPECT_EQ(NewestGood(again, TinyPlan()), 20u);
    });
  }
  EXPECT_GT(newest_seen[0], 0u);
  EXPECT_GT(newest_seen[1], 0u);
}

// One bit of a packed copy in a directory: whatever it is of, the copy isn't loaded.
TEST(TierInjection, AFlippedBitInAPackedDirectoryIsFound) {
  Random random(7);
  for (size_t i = 0; i < Trials(kKinds); ++i) {
    Tiers tiers;
    sim::CrashFileSystem shared;
    ASSERT_TRUE(shared.MakeDirectories("/shared").ok());
    objects::PackedFiles files(shared, Packing::kZstd);
    CheckpointDirectory remote(files, "/shared/gpt");
    for (const uint64_t step : {10u, 20u}) {
      ASSERT_TRUE(Save(tiers.local, TinyPlan(), step).ok());
      ASSERT_TRUE(CopyAll(tiers.local, step, remote).ok());
    }
    const auto names = shared.List("/shared/gpt/step-000000020.e1");
    const std::string path =
        "/shared/gpt/step-000000020.e1/" + (*names)[random.Below(names->size())];
    if (random.Below(2) == 0) {
      shared.FlipBit(path, random.Below(*shared.Size(path) * 8));
    } else {
      const auto whole = *shared.ReadAll(path, 1 << 20);
      const auto cut = std::span(whole).first(random.Below(whole.size()));
      ASSERT_TRUE(io::WriteFileAtomically(shared, path, cut).ok());
    }
    EXPECT_EQ(NewestGood(remote, TinyPlan()), 10u) << path << " in trial " << i;
    ASSERT_TRUE(tiers.local.Remove(20, 1).ok());
    EXPECT_FALSE(CopyAll(remote, 20, tiers.local).ok());
    EXPECT_EQ(NewestGood(tiers.local, TinyPlan()), 10u);
  }
}

// The shared directory is full, or a write to it fails: what was there stays.
TEST(TierInjection, AFullSharedDirectoryLosesNothing) {
  Random random(8);
  size_t failed = 0;
  for (size_t i = 0; i < Trials(kKinds); ++i) {
    Tiers tiers;
    sim::CrashFileSystem shared;
    ASSERT_TRUE(shared.MakeDirectories("/shared").ok());
    objects::PackedFiles files(shared, Either(random));
    CheckpointDirectory remote(files, "/shared/gpt");
    ASSERT_TRUE(Save(tiers.local, TinyPlan(), 10).ok());
    ASSERT_TRUE(Save(tiers.local, TinyPlan(), 20).ok());
    ASSERT_TRUE(CopyAll(tiers.local, 10, remote).ok());
    if (random.Below(2) == 0) {
      shared.SetFreeBytes(random.Below(12'000));
    } else {
      shared.FailOperation(random.Below(24));
    }
    const Status copied = CopyAll(tiers.local, 20, remote);
    failed += !copied.ok();
    const uint64_t newest = NewestGood(remote, TinyPlan());
    // A failure of the last sync comes after the rename, which readers see already.
    ASSERT_TRUE(copied.ok() ? newest == 20 : newest == 10 || newest == 20) << "trial " << i;
    shared.SetFreeBytes(1u << 30);
    shared.FailOperation(1u << 30);
    ASSERT_TRUE(CopyAll(tiers.local, 20, remote).ok());
    EXPECT_EQ(NewestGood(remote, TinyPlan()), 20u);
  }
  EXPECT_GT(failed, Trials(kKinds) / 4);
}

}  // namespace
}  // namespace longhaul::checkpoint
