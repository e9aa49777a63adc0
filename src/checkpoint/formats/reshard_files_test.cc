// Any layout from any other, through files: saved by the ranks of one layout, read by another's,
// every byte compared, and what is read counted by the file system.
#include "checkpoint/formats/reshard_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "checkpoint/directory.h"
#include "checkpoint/formats/catalog_reader.h"
#include "checkpoint/formats/open_checkpoint.h"
#include "checkpoint/shard.h"
#include "sim/crash_file_system.h"

namespace longhaul::checkpoint {
namespace {

using testing_support::DistinctBytes;
using testing_support::InCatalog;
using testing_support::LoadAndCompare;
using testing_support::RandomLayout;
using testing_support::RandomModel;
using testing_support::SaveLayout;
using testing_support::ShardsOfAll;
using testing_support::SmallModel;

// LONGHAUL_RESHARD_PAIRS=1000 for the whole of it.
TEST(ReshardThroughFiles, OfRandomPairsOfLayoutsIsExactAndReadsWhatIsNeeded) {
  const char* wanted_pairs = std::getenv("LONGHAUL_RESHARD_PAIRS");
  const uint64_t pairs = wanted_pairs == nullptr ? 25 : std::strtoull(wanted_pairs, nullptr, 10);
  for (uint64_t seed = 1; seed <= pairs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const SmallModel model = RandomModel(random);
    const spec::Layout from = RandomLayout(random, model);
    const spec::Layout to = RandomLayout(random, model);
    sim::CrashFileSystem files;
    const Status saved = SaveLayout(files, "/run", model, from);
    ASSERT_TRUE(saved.ok()) << saved;
    const Result<Catalog> catalog = OpenCheckpoint(files, "/run");
    ASSERT_TRUE(catalog.ok()) << catalog.status();
    ASSERT_EQ(catalog->tensors.size(), model.names.size());
    const auto rank = static_cast<uint32_t>(random.Below(to.devices()));
    for (const auto& wanted : {ShardsOfRank(model.problem(to), to, rank), ShardsOfAll(model, to)}) {
      const auto plan = PlanReads(catalog->shards, InCatalog(*catalog, model, wanted),
                                  catalog->ElementBytes(), catalog->Names());
      ASSERT_TRUE(plan.ok()) << plan.status();
      ReadCount count;
      ASSERT_EQ(LoadAndCompare(files, *catalog, model, wanted, false, count), "");
      ASSERT_EQ(count.bytes, plan->bytes_read);
      ASSERT_EQ(count.bytes, plan->bytes_needed);
      ASSERT_EQ(count.bytes, DistinctBytes(model, wanted));
      // Verified: whole chunks, each once, and never more than the files hold.
      uint64_t planned = 0;
      for (const ReadBlock& block : BlocksOf(*catalog, *plan, true)) planned += block.bytes;
      ASSERT_EQ(LoadAndCompare(files, *catalog, model, wanted, true, count), "");
      ASSERT_EQ(count.bytes, planned);
      ASSERT_GE(count.bytes, plan->bytes_needed);
    }
  }
}

TEST(CatalogReader, RefusesAFlippedBitThatTheReadTouchesAndNoOther) {
  Random random(5);
  const SmallModel model = RandomModel(random);
  spec::Layout layout;
  layout.data = 2;
  layout.zero_stage = 3;
  sim::CrashFileSystem files;
  ASSERT_TRUE(SaveLayout(files, "/run", model, layout).ok());
  const Result<Catalog> catalog = OpenCheckpoint(files, "/run");
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  const SavedShard& hit = catalog->shards.front();
  const std::string path = catalog->files[hit.file].path;
  files.FlipBit(path, (hit.file_offset + 1) * 8 + 3);
  ReadCount count;
  const auto read = [&](uint32_t tensor) {
    const uint32_t in_model = static_cast<uint32_t>(
        std::find(model.names.begin(), model.names.end(), catalog->tensors[tensor].name) -
        model.names.begin());
    return LoadAndCompare(files, *catalog, model,
                          {{in_model, Box::Whole(catalog->tensors[tensor].shape)}}, true, count);
  };
  const std::string refused = read(hit.tensor);
  EXPECT_NE(refused.find("the hash of the"), std::string::npos) << refused;
  EXPECT_NE(refused.find(path), std::string::npos) << refused;
  EXPECT_EQ(read(static_cast<uint32_t>(catalog->tensors.size() - 1)), "");
}

TEST(OpenCheckpoint, RefusesARunThatLacksAnElement) {
  // Rank 1 of two writes nothing: half of the tensor is nowhere.
  sim::CrashFileSystem files;
  CheckpointDirectory directory(files, "/run");
  Manifest manifest;
  manifest.job = "job";
  manifest.step = 1;
  manifest.attempt = 1;
  manifest.world = 2;
  const std::vector<std::byte> bytes(16);
  const std::vector<std::span<const std::byte>> tensors = {bytes};
  const auto half = StatePlan::Create({{"w#0", "F32", {4}, TensorPart{"w", {8}, {0}}}});
  const auto nothing = StatePlan::Create({});
  ASSERT_TRUE(half.ok() && nothing.ok());
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const auto piece = rank == 0 ? directory.WritePiece(1, 1, 0, 2, *half, tensors)
                                 : directory.WritePiece(1, 1, 1, 2, *nothing, {});
    ASSERT_TRUE(piece.ok()) << piece.status();
    manifest.files.push_back(*piece);
  }
  ASSERT_TRUE(directory.Commit(manifest).ok());
  const auto catalog = OpenCheckpoint(files, "/run");
  ASSERT_FALSE(catalog.ok());
  EXPECT_EQ(catalog.status().code(), Code::kDataLoss);
  EXPECT_NE(catalog.status().message().find("w is not all there"), std::string::npos)
      << catalog.status();
}

}  // namespace
}  // namespace longhaul::checkpoint
