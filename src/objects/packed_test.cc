#include "objects/packed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/hash.h"
#include "base/random.h"
#include "objects/packed_format.h"
#include "objects/testing.h"
#include "sim/crash_file_system.h"

namespace longhaul::objects::packed_test {
namespace {

using Bytes = std::vector<std::byte>;
using testing::HasSubstr;

// Numbers as weights are: random mantissas and signs, few exponents.
Bytes Floats(uint64_t seed, size_t bytes) {
  Random random(seed);
  Bytes all(bytes);
  for (size_t at = 0; at + 4 <= bytes; at += 4) {
    const float value = (static_cast<float>(random.Below(1u << 24)) / (1u << 24) - 0.5F) * 0.1F;
    std::memcpy(&all[at], &value, 4);
  }
  return all;
}
Bytes Noise(uint64_t seed, size_t bytes) {
  Random random(seed);
  Bytes all(bytes);
  for (std::byte& each : all) each = std::byte{static_cast<unsigned char>(random.Below(256))};
  return all;
}

Status Write(io::FileSystem& files, const std::string& path, const std::vector<Bytes>& appends) {
  ASSIGN_OR_RETURN(const auto file, files.CreateBulk(path, 0));
  for (const Bytes& append : appends) RETURN_IF_ERROR(file->Append(append));
  RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

Bytes Joined(const std::vector<Bytes>& appends) {
  Bytes all;
  for (const Bytes& append : appends) all.insert(all.end(), append.begin(), append.end());
  return all;
}

constexpr char kShard[] = "/r/x.safetensors";
constexpr char kPacked[] = "/r/x.safetensors.zst";

struct Disk {
  Disk() { EXPECT_TRUE(files.MakeDirectories("/r").ok()); }
  sim::CrashFileSystem files;
  PackedFiles packing{files, Packing::kZstd};
  PackedFiles reading{files, Packing::kReadOnly};
};

TEST(PackedFiles, GiveBackWhatWasWrittenWholeAndInPieces) {
  Random random(1);
  const std::vector<Bytes> kFiles[] = {
      {},
      {Bytes(1)},
      {Noise(1, 4096), Floats(2, 100), Floats(3, kPackedBlockBytes * 2 + 13)},
      {Bytes(3 * kPackedBlockBytes)},
      {Noise(4, kPackedBlockBytes), Floats(5, 7), {}, Floats(6, kPackedBlockBytes - 1)}};
  for (const std::vector<Bytes>& appends : kFiles) {
    Disk disk;
    ASSERT_TRUE(Write(disk.packing, kShard, appends).ok());
    const Bytes all = Joined(appends);
    EXPECT_EQ(disk.files.List("/r")->front(), "x.safetensors.zst");
    for (PackedFiles* files : {&disk.packing, &disk.reading}) {
      EXPECT_EQ(*files->List("/r"), std::vector<std::string>{"x.safetensors"});
      EXPECT_EQ(*files->Size(kShard), all.size());
      EXPECT_EQ(*files->ReadAll(kShard, 1u << 30), all);
      const auto file = files->Open(kShard);
      ASSERT_TRUE(file.ok()) << file.status();
      EXPECT_EQ((*file)->bytes(), all.size());
      for (int i = 0; i < 50; ++i) {
        const size_t at = random.Below(all.size() + 1);
        Bytes some(random.Below(all.size() - at + 1));
        ASSERT_TRUE((*file)->Read(at, some).ok());
        EXPECT_TRUE(std::ranges::equal(some, std::span(all).subspan(at, some.size())));
      }
      Bytes beyond(2);
      EXPECT_EQ((*file)->Read(all.size() - std::min<size_t>(all.size(), 1), beyond).code(),
                Code::kDataLoss);
    }
  }
}

TEST(PackedFiles, NumbersBecomeSmallerAndNoiseHardlyLarger) {
  Disk disk;
  const Bytes floats = Floats(1, 3 * kPackedBlockBytes);
  ASSERT_TRUE(Write(disk.packing, kShard, {floats}).ok());
  EXPECT_LT(*disk.files.Size(kPacked), floats.size() * 9 / 10);
  const Bytes noise = Noise(1, 3 * kPackedBlockBytes);
  ASSERT_TRUE(Write(disk.packing, kShard, {noise}).ok());
  EXPECT_EQ(*disk.files.Size(kPacked), noise.size() + 3 * kPackedEntryBytes + kPackedTrailerBytes);
}

TEST(PackedFiles, LeaveOtherNamesAloneAndOtherFilesAsTheyAre) {
  Disk disk;
  const Bytes text = Floats(1, 1000);
  ASSERT_TRUE(Write(disk.packing, "/r/MANIFEST", {text}).ok());
  EXPECT_EQ(*disk.files.ReadAll("/r/MANIFEST", 4096), text);
  ASSERT_TRUE(Write(disk.reading, kShard, {text}).ok());
  EXPECT_EQ(*disk.files.ReadAll(kShard, 4096), text) << "read-only: what is written isn't packed";
  EXPECT_EQ(*disk.packing.ReadAll(kShard, 4096), text);
  EXPECT_EQ(disk.packing.Size("/r/y.safetensors").status().code(), Code::kNotFound);
  EXPECT_EQ(disk.packing.Open("/r/y.safetensors").status().code(), Code::kNotFound);
  EXPECT_EQ(disk.packing.Remove("/r/y.safetensors").code(), Code::kNotFound);
  EXPECT_EQ(disk.packing.ReadAll(kShard, 999).status().code(), Code::kResourceExhausted);
}

// One that is damaged, say, is there unpacked, from before packing was asked for.
TEST(PackedFiles, ThePackedOneTakesTheUnpackedOnesPlace) {
  Disk disk;
  const Bytes older = Floats(1, 5000), newer = Floats(2, 5000);
  ASSERT_TRUE(Write(disk.files, kShard, {older}).ok());
  ASSERT_TRUE(Write(disk.packing, std::string(kShard) + ".tmp", {newer}).ok());
  EXPECT_EQ(*disk.packing.ReadAll(kShard, 1u << 20), older);
  ASSERT_TRUE(disk.packing.Rename(std::string(kShard) + ".tmp", kShard).ok());
  EXPECT_EQ(*disk.packing.ReadAll(kShard, 1u << 20), newer);
  EXPECT_EQ(*disk.files.List("/r"), std::vector<std::string>{"x.safetensors.zst"});
  ASSERT_TRUE(disk.reading.Remove(kShard).ok());
  EXPECT_TRUE(disk.files.List("/r")->empty());

  const auto bucket = std::make_shared<FakeBucket>();
  const auto store = FakeFiles(bucket, 1000);
  PackedFiles packing(*store, Packing::kZstd);
  const std::string path = "s3://models/x.safetensors";
  ASSERT_TRUE(Write(*store, path, {older}).ok());
  ASSERT_TRUE(Write(packing, path, {newer}).ok());
  EXPECT_EQ(*packing.ReadAll(path, 1u << 20), newer);
  EXPECT_EQ(bucket->objects.size(), 1u);
}

TEST(PackedFiles, AnyFlippedBitAndAnyCutIsFound) {
  Disk disk;
  const std::vector<Bytes> appends = {Noise(1, 50), Floats(2, 400), Bytes(300)};
  const Bytes all = Joined(appends);
  ASSERT_TRUE(Write(disk.packing, kShard, appends).ok());
  const uint64_t size = *disk.files.Size(kPacked);
  const auto found = [&] {
    const auto whole = disk.packing.ReadAll(kShard, 1u << 20);
    EXPECT_TRUE(!whole.ok() || *whole == all) << "other bytes were given";
    return whole.status().code() == Code::kDataLoss;
  };
  for (uint64_t bit = 0; bit < size * 8; ++bit) {
    disk.files.FlipBit(kPacked, bit);
    EXPECT_TRUE(found()) << "bit " << bit;
    disk.files.FlipBit(kPacked, bit);
  }
  EXPECT_FALSE(found());
  const Bytes packed = *disk.files.ReadAll(kPacked, 1u << 20);
  for (size_t cut = 0; cut < packed.size(); ++cut) {
    ASSERT_TRUE(Write(disk.files, kPacked, {Bytes(packed.begin(), packed.begin() + cut)}).ok());
    EXPECT_TRUE(found()) << "cut at " << cut;
    EXPECT_FALSE(disk.packing.Size(kShard).ok());
  }
}

// A file whose hashes all agree, with a table of one block.
Bytes Forged(const PackedBlock& block, const Bytes& stored) {
  const std::string end = EncodePackedEnd({block});
  Bytes file = stored;
  const auto bytes = std::as_bytes(std::span(end));
  file.insert(file.end(), bytes.begin(), bytes.end());
  return file;
}

TEST(PackedFiles, WhatUnpacksIntoMoreIsRefused) {
  // A frame of 64 MiB of zeros, some kilobytes long, declared as one of 1 MiB, and as what it is.
  const Bytes zeros(64u << 20);
  Bytes bomb(1u << 20);
  bomb.resize(ZSTD_compress(bomb.data(), bomb.size(), zeros.data(), zeros.size(), 1));
  const auto stored = static_cast<uint32_t>(bomb.size());
  const uint64_t hash = Hash64(bomb.data(), bomb.size());
  const struct {
    const char* what;
    PackedBlock block;
    const char* why;
  } kRows[] = {
      {"more than declared", {1u << 20, stored, 1, hash}, "doesn't unpack"},
      {"over a block", {64u << 20, stored, 1, hash}, "doesn't fit"},
      {"a byte over a block", {(1u << 20) + 1, stored, 1, hash}, "makes no sense"},
      {"unknown width", {1u << 20, stored, 3, hash}, "makes no sense"},
      {"not smaller", {stored, stored, 1, hash}, "makes no sense"},
      {"as it is, of another size", {stored + 1, stored, 0, hash}, "makes no sense"},
      {"no bytes", {0, stored, 1, hash}, "makes no sense"},
  };
  for (const auto& row : kRows) {
    Disk disk;
    ASSERT_TRUE(Write(disk.files, kPacked, {Forged(row.block, bomb)}).ok());
    const auto read = disk.packing.ReadAll(kShard, 1u << 30);
    EXPECT_EQ(read.status().code(), Code::kDataLoss) << row.what;
    EXPECT_THAT(read.status().message(), HasSubstr(row.why)) << row.what;
    EXPECT_THAT(read.status().message(), HasSubstr(kPacked));
  }
  // Less than declared.
  const Bytes few(100);
  Bytes frame(1000);
  frame.resize(ZSTD_compress(frame.data(), frame.size(), few.data(), few.size(), 1));
  const PackedBlock block{200, static_cast<uint32_t>(frame.size()), 1,
                          Hash64(frame.data(), frame.size())};
  Disk disk;
  ASSERT_TRUE(Write(disk.files, kPacked, {Forged(block, frame)}).ok());
  EXPECT_THAT(disk.packing.ReadAll(kShard, 1u << 30).status().message(),
              HasSubstr("unpacks to 100 bytes, not 200"));
}

TEST(PackedFiles, APartCostsItsOwnBlocks) {
  const auto bucket = std::make_shared<FakeBucket>();
  const auto store = FakeFiles(bucket, 1u << 20);
  PackedFiles packing(*store, Packing::kZstd);
  const std::string path = "s3://models/x.safetensors";
  const Bytes all = Floats(1, 16 * kPackedBlockBytes);
  ASSERT_TRUE(Write(packing, path, {all}).ok());
  uint64_t got = 0;
  bucket->alter = [&got](const std::string&, Answer& answer) { got += answer.body.size(); };
  const auto file = packing.Open(path);
  Bytes some(1000);
  ASSERT_TRUE((*file)->Read(7 * kPackedBlockBytes + 5, some).ok());
  EXPECT_TRUE(std::ranges::equal(some, std::span(all).subspan(7 * kPackedBlockBytes + 5, 1000)));
  EXPECT_LT(got, 2 * kPackedBlockBytes);
}

TEST(PackedFiles, AFullDiskLeavesNoWholeFile) {
  for (uint64_t free = 0; free < 688; free += 8) {
    Disk disk;
    disk.files.SetFreeBytes(free);
    EXPECT_EQ(Write(disk.packing, kShard, {Noise(1, 600)}).code(), Code::kResourceExhausted);
    EXPECT_NE(disk.packing.Size(kShard).status().code(), Code::kOk);
  }
}

}  // namespace
}  // namespace longhaul::objects::packed_test
