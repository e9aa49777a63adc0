// Any layout from any other, through real files of every format: saved by the ranks of one layout,
// converted, read by boxes of another's. With a Python that has PyTorch it reads what was written
// here, compares, and writes the same state itself, which is then read by boxes too.
//
//   LONGHAUL_RESHARD_PAIRS=1000          so many pairs (3)
//   LONGHAUL_RESHARD_FORMATS_EVERY=10    other formats with every tenth pair (1)
//   LONGHAUL_RESHARD_SCRIPT="python3 tests/reshard_torch.py"
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/temporary_folder.h"
#include "checkpoint/formats/catalog_reader.h"
#include "checkpoint/formats/open_checkpoint.h"
#include "checkpoint/formats/reshard_files.h"
#include "checkpoint/formats/write_checkpoint.h"

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

constexpr int kNoTorch = 77;  // the script's exit code

uint64_t Number(const char* variable, uint64_t standard) {
  const char* text = std::getenv(variable);
  return text == nullptr ? standard : std::strtoull(text, nullptr, 10);
}

struct Pair {
  explicit Pair(uint64_t seed) {
    Random random(seed);
    model = RandomModel(random);
    from = RandomLayout(random, model);
    to = RandomLayout(random, model);
    rank = static_cast<uint32_t>(random.Below(to.devices()));
  }

  SmallModel model;
  spec::Layout from;
  spec::Layout to;
  uint32_t rank = 0;
};

class ReshardOnDisk : public testing::Test {
 protected:
  std::string FolderOf(uint64_t seed) const { return root_ + "/" + std::to_string(seed); }

  // One rank of the other layout, then all of them, out of a checkpoint of any format. `exact`:
  // that not a byte more than needed is read of files, which holds where tensors lie row-major.
  void Check(const Pair& pair, const std::string& path, bool exact) {
    SCOPED_TRACE(path);
    const Result<Catalog> catalog = OpenCheckpoint(files_, path);
    ASSERT_TRUE(catalog.ok()) << catalog.status();
    const auto problem = pair.model.problem(pair.to);
    for (const auto& wanted :
         {ShardsOfRank(problem, pair.to, pair.rank), ShardsOfAll(pair.model, pair.to)}) {
      const auto plan = PlanReads(catalog->shards, InCatalog(*catalog, pair.model, wanted),
                                  catalog->ElementBytes(), catalog->Names());
      ASSERT_TRUE(plan.ok()) << plan.status();
      ReadCount count;
      ASSERT_EQ(LoadAndCompare(files_, *catalog, pair.model, wanted, false, count), "");
      ASSERT_EQ(plan->bytes_read, plan->bytes_needed);
      ASSERT_EQ(plan->bytes_needed, DistinctBytes(pair.model, wanted));
      if (exact) {
        ASSERT_EQ(count.bytes, plan->bytes_needed);
      }
      ASSERT_EQ(LoadAndCompare(files_, *catalog, pair.model, wanted, true, count), "");
      ++loads_;
      bytes_ += plan->bytes_needed;
    }
  }

  void Convert(const std::string& from, const std::string& to, Format format, uint64_t shard) {
    const Result<Catalog> catalog = OpenCheckpoint(files_, from);
    ASSERT_TRUE(catalog.ok()) << catalog.status();
    WriteOptions options;
    options.format = format;
    options.max_shard_bytes = shard;
    const Status written = WriteCheckpoint(files_, *catalog, to, options);
    ASSERT_TRUE(written.ok()) << written;
  }

  void CheckFormats(const Pair& pair, const std::string& folder) {
    const struct {
      const char* name;
      Format format;
      uint64_t shard;
    } kForms[] = {{"model.safetensors", Format::kSafetensors, 0},
                  {"sharded", Format::kSafetensors, 8192},
                  {"model.pt", Format::kTorch, 0},
                  {"dcp", Format::kDistributed, 8192}};
    for (const auto& form : kForms) {
      const std::string path = folder + "/" + form.name;
      ASSERT_NO_FATAL_FAILURE(Convert(folder + "/own", path, form.format, form.shard));
      ASSERT_NO_FATAL_FAILURE(Check(pair, path, true));
    }
  }

  io::FileSystem& files_ = io::PosixFileSystem();
  const TemporaryFolder folder_{testing::TempDir()};
  const std::string& root_ = folder_.path();
  uint64_t loads_ = 0;
  uint64_t bytes_ = 0;
};

TEST_F(ReshardOnDisk, OfRandomPairsOfLayoutsIsExactInEveryFormat) {
  const uint64_t pairs = Number("LONGHAUL_RESHARD_PAIRS", 3);
  const uint64_t every = std::max<uint64_t>(1, Number("LONGHAUL_RESHARD_FORMATS_EVERY", 1));
  const char* script = std::getenv("LONGHAUL_RESHARD_SCRIPT");
  for (uint64_t seed = 1; seed <= pairs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Pair pair(seed);
    const std::string folder = FolderOf(seed);
    const Status saved = SaveLayout(files_, folder + "/own", pair.model, pair.from);
    ASSERT_TRUE(saved.ok()) << saved;
    ASSERT_NO_FATAL_FAILURE(Check(pair, folder + "/own", true));
    if (seed % every == 0) {
      ASSERT_NO_FATAL_FAILURE(CheckFormats(pair, folder));
    }
    if (script == nullptr || seed % every != 0) std::filesystem::remove_all(folder);
  }
  std::printf("%llu loads, %llu bytes needed and read\n", static_cast<unsigned long long>(loads_),
              static_cast<unsigned long long>(bytes_));
  if (script == nullptr) return;
  const int ended = std::system((std::string(script) + " '" + root_ + "'").c_str());
  if (WIFEXITED(ended) && WEXITSTATUS(ended) == kNoTorch) GTEST_SKIP() << "no PyTorch there";
  ASSERT_EQ(ended, 0) << script;
  uint64_t foreign = 0;
  for (uint64_t seed = every; seed <= pairs; seed += every) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Pair pair(seed);
    ASSERT_TRUE(std::filesystem::exists(FolderOf(seed) + "/theirs.pt"));
    for (const char* name : {"theirs.pt", "theirs.safetensors", "theirs-dcp", "strided.pt"}) {
      const std::string path = FolderOf(seed) + "/" + name;
      if (!std::filesystem::exists(path)) continue;
      ASSERT_NO_FATAL_FAILURE(Check(pair, path, std::string_view(name) != "strided.pt"));
      ++foreign;
    }
  }
  std::printf("%llu files and folders of theirs read\n", static_cast<unsigned long long>(foreign));
}

void FlipBitAt(const std::string& path, uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  char byte = 0;
  file.seekg(static_cast<std::streamoff>(offset));
  file.get(byte);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ 8));
  ASSERT_TRUE(file.good()) << path;
}

// One flipped bit of a tensor, and the checkpoint converted: every format with sums refuses.
TEST_F(ReshardOnDisk, AFlippedBitIsNotCarriedIntoAnotherFormat) {
  const Pair pair(2);
  const std::string folder = FolderOf(2);
  ASSERT_TRUE(SaveLayout(files_, folder + "/own", pair.model, pair.from).ok());
  ASSERT_NO_FATAL_FAILURE(CheckFormats(pair, folder));
  for (const char* name : {"own", "model.pt", "dcp"}) {
    const std::string path = folder + "/" + name;
    const Result<Catalog> catalog = OpenCheckpoint(files_, path);
    ASSERT_TRUE(catalog.ok()) << catalog.status();
    const SavedShard& hit = catalog->shards.back();
    ASSERT_NO_FATAL_FAILURE(FlipBitAt(catalog->files[hit.file].path, hit.file_offset + 1));
    WriteOptions options;
    const Status written = WriteCheckpoint(files_, *catalog, folder + "/out", options);
    EXPECT_EQ(written.code(), Code::kDataLoss) << name;
    EXPECT_NE(written.message().find(catalog->files[hit.file].path), std::string::npos) << written;
    EXPECT_FALSE(std::filesystem::exists(folder + "/out"));
  }
}

}  // namespace
}  // namespace longhaul::checkpoint
