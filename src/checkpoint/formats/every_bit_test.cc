// Every bit of every file of a small checkpoint, flipped in turn; every file cut at every length
// and made longer: what is loaded is what was saved, or nothing is.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/directory.h"
#include "checkpoint/formats/catalog_reader.h"
#include "checkpoint/formats/open_checkpoint.h"
#include "checkpoint/formats/testing.h"
#include "checkpoint/formats/verify.h"
#include "checkpoint/reshard/load_state.h"
#include "checkpoint/testing.h"
#include "sim/crash_file_system.h"

namespace longhaul::checkpoint {
namespace {

using testing_support::ManifestOf;
using testing_support::MemoryFile;
using testing_support::State;

constexpr const char* kSteps = "/run/checkpoints";

// Files of one folder in memory, to be read alone.
class ReadOnlyFiles final : public io::FileSystem {
 public:
  std::map<std::string, std::string> content;

  Result<std::unique_ptr<io::ReadableFile>> Open(const std::string& path) override {
    const auto found = content.find(path);
    if (found == content.end()) return NotFound(path);
    return std::unique_ptr<io::ReadableFile>(std::make_unique<MemoryFile>(found->second));
  }
  Result<std::vector<std::byte>> ReadAll(const std::string& path, uint64_t) override {
    const auto found = content.find(path);
    if (found == content.end()) return NotFound(path);
    const auto bytes = std::as_bytes(std::span(found->second));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  }
  Result<uint64_t> Size(const std::string& path) override {
    const auto found = content.find(path);
    if (found == content.end()) return NotFound(path);
    return found->second.size();
  }
  Result<std::vector<std::string>> List(const std::string& path) override {
    std::vector<std::string> names;
    for (const auto& [name, text] : content) {
      if (!name.starts_with(path + "/")) continue;
      const std::string below = name.substr(path.size() + 1);
      const std::string first = below.substr(0, below.find('/'));
      if (names.empty() || names.back() != first) names.push_back(first);
    }
    if (names.empty()) return NotFound(path);
    return names;
  }
  Result<std::unique_ptr<io::WritableFile>> Create(const std::string&) override { return None(); }
  Status Rename(const std::string&, const std::string&) override { return None(); }
  Status Remove(const std::string&) override { return None(); }
  Status RemoveDirectory(const std::string&) override { return None(); }
  Status MakeDirectories(const std::string&) override { return None(); }
  Status SyncDirectory(const std::string&) override { return None(); }

 private:
  static Status None() { return Unimplemented("these files are only read"); }
};

// Saves a step of one state a rank and takes over its files.
void Save(const std::vector<State>& ranks, ReadOnlyFiles& files) {
  sim::CrashFileSystem disk;
  CheckpointDirectory directory(disk, kSteps);
  const auto world = static_cast<uint32_t>(ranks.size());
  Manifest manifest = ManifestOf(40, 3, world);
  manifest.validation_loss = 2.5;
  for (uint32_t rank = 0; rank < world; ++rank) {
    const auto piece =
        directory.WritePiece(40, 3, rank, world, ranks[rank].plan(), ranks[rank].Tensors());
    ASSERT_TRUE(piece.ok()) << piece.status();
    manifest.files.push_back(*piece);
  }
  ASSERT_TRUE(directory.Commit(manifest).ok());
  const std::string step = std::string(kSteps) + "/" + CheckpointDirectory::NameOf(40, 3);
  for (const std::string& name : *disk.List(step)) {
    const auto bytes = *disk.ReadAll(step + "/" + name, 1 << 20);
    files.content[step + "/" + name] =
        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
}

// Two ranks with halves of a tensor and one of their own, as the built-in trainer's.
void SaveParts(ReadOnlyFiles& files) {
  std::vector<State> ranks;
  for (int64_t rank = 0; rank < 2; ++rank) {
    const TensorPart half{"weight", {6, 4}, {3 * rank, 0}};
    ranks.emplace_back(*StatePlan::Create({{"weight", "F32", {3, 4}, half},
                                           {"bias." + std::to_string(rank), "BF16", {5}},
                                           {"step", "I64", {}}}),
                       7);
  }
  Save(ranks, files);
}

// As the Python package writes it: tensors, and the tree of values as one more.
void SaveTree(ReadOnlyFiles& files) {
  const std::string tree =
      R"({"d":[["model",{"l":[{"t":0,"k":"torch"}]}],["lr",{"v":0.001}],["n",{"i":"1)" +
      std::string(24, '0') + R"("}]]})" + std::string(40, ' ');
  State state(*StatePlan::Create({{"model.0", "F32", {4}},
                                  {"longhaul/tree", "U8", {static_cast<int64_t>(tree.size())}}}),
              7);
  const auto to = state.Writable()[1];
  std::memcpy(to.data(), tree.data(), to.size());
  Save({state}, files);
}

// All that a loader gets of a checkpoint, as text; nothing when it is refused.
std::optional<std::string> Load(io::FileSystem& files) {
  const auto catalog = OpenCheckpoint(files, "/run");
  if (!catalog.ok()) {
    EXPECT_EQ(catalog.status().code(), Code::kDataLoss) << catalog.status();
    return std::nullopt;
  }
  std::string loaded = catalog->job + " " + std::to_string(catalog->step) + "." +
                       std::to_string(catalog->attempt) + "." + std::to_string(catalog->world);
  CatalogReader reader(files, *catalog);
  for (uint32_t i = 0; i < catalog->tensors.size(); ++i) {
    const TensorInfo& tensor = catalog->tensors[i];
    std::string bytes(catalog->TensorBytes(i), '\0');
    const Status read = reader.ReadRange(i, 0, std::as_writable_bytes(std::span(bytes)));
    if (!read.ok()) {
      EXPECT_EQ(read.code(), Code::kDataLoss) << read;
      return std::nullopt;
    }
    loaded += "\n" + tensor.name + " " + tensor.dtype + " " + ToString(Box::Whole(tensor.shape)) +
              " " + bytes;
  }
  return loaded + "\n" + (catalog->tree ? catalog->tree->dump() : "") + catalog->tree_text;
}

// The same by rank, as an agent's worker loads it.
std::optional<std::string> LoadRanks(io::FileSystem& files, const std::vector<StatePlan>& plans) {
  std::string loaded;
  for (uint32_t rank = 0; rank < plans.size(); ++rank) {
    std::vector<std::string> memory;
    std::vector<std::span<std::byte>> spans;
    for (size_t i = 0; i < plans[rank].size(); ++i) memory.emplace_back(plans[rank].bytes(i), '\0');
    for (std::string& one : memory) spans.push_back(std::as_writable_bytes(std::span(one)));
    const auto read = LoadState(files, {kSteps, 40, 3, rank}, plans[rank], spans);
    if (!read.ok()) return std::nullopt;
    for (const std::string& one : memory) loaded += one;
  }
  return loaded;
}

struct Tried {
  size_t changes = 0;
  size_t refused = 0;
  size_t harmless = 0;
};

// Makes every change of every file. Fails the test at the first that is loaded as something else.
template <typename LoadIt>
Tried TryEveryChange(ReadOnlyFiles& files, const LoadIt& load) {
  Tried tried;
  const std::optional<std::string> whole = load();
  EXPECT_TRUE(whole.has_value());
  const auto check = [&](const std::string& what) {
    const std::optional<std::string> loaded = load();
    ++tried.changes;
    tried.refused += loaded.has_value() ? 0 : 1;
    tried.harmless += loaded == whole ? 1 : 0;
    if (loaded.has_value() && loaded != whole) ADD_FAILURE() << what << " loads another state";
  };
  for (auto& [path, content] : files.content) {
    const std::string before = content;
    for (size_t bit = 0; bit < content.size() * 8 && !testing::Test::HasFailure(); ++bit) {
      content[bit / 8] = static_cast<char>(content[bit / 8] ^ (1 << bit % 8));
      check("bit " + std::to_string(bit) + " of " + path);
      content[bit / 8] = before[bit / 8];
    }
    for (size_t bytes = 0; bytes < before.size() && !testing::Test::HasFailure(); ++bytes) {
      content = before.substr(0, bytes);
      check(path + " cut to " + std::to_string(bytes) + " bytes");
    }
    for (const char added : {'\0', ' ', '\n', '}'}) {
      for (const size_t bytes : {1, 2, 8, 512}) {
        content = before + std::string(bytes, added);
        check(path + " made longer by " + std::to_string(bytes));
      }
    }
    content = before;
  }
  return tried;
}

TEST(EveryBit, OfACheckpointInPartsIsRefusedOrWithoutEffect) {
  ReadOnlyFiles files;
  SaveParts(files);
  const Tried tried = TryEveryChange(files, [&] { return Load(files); });
  EXPECT_GT(tried.changes, 80'000u);
  // Rank 1's copy of "step" is a replica that this load does not read.
  EXPECT_EQ(tried.harmless, sizeof(int64_t) * 8);
  EXPECT_EQ(tried.refused + tried.harmless, tried.changes);
}

TEST(EveryBit, OfACheckpointWithATreeIsRefusedOrWithoutEffect) {
  ReadOnlyFiles files;
  SaveTree(files);
  const Tried tried = TryEveryChange(files, [&] { return Load(files); });
  EXPECT_GT(tried.changes, 40'000u);
  EXPECT_EQ(tried.refused, tried.changes) << tried.harmless << " without effect";
}

// A worker reads what its own rank needs: a change elsewhere may be without effect for it.
TEST(EveryBit, OfWhatAWorkerLoadsIsRefusedOrWithoutEffect) {
  ReadOnlyFiles files;
  SaveTree(files);
  const auto manifest = CheckpointDirectory(files, kSteps).Read(40, 3);
  ASSERT_TRUE(manifest.ok());
  const auto plan = SavedPlan(files, {kSteps, 40, 3, 0});
  ASSERT_TRUE(plan.ok());
  const Tried tried = TryEveryChange(files, [&] { return LoadRanks(files, {*plan}); });
  EXPECT_EQ(tried.refused, tried.changes) << tried.harmless << " without effect";
}

TEST(EveryBit, ThatIsDamagedIsNamedByVerify) {
  ReadOnlyFiles files;
  SaveTree(files);
  for (auto& [path, content] : files.content) {
    for (size_t at = 0; at < content.size(); at += 37) {
      content[at] = static_cast<char>(content[at] ^ 16);
      const auto run = VerifyRun(files, "/run", {});
      content[at] = static_cast<char>(content[at] ^ 16);
      ASSERT_TRUE(run.ok()) << run.status();
      ASSERT_FALSE(run->good()) << path << " at byte " << at;
      ASSERT_EQ(run->steps.size(), 1u);
      EXPECT_EQ(run->steps_lost(), 40u);
    }
  }
}

}  // namespace
}  // namespace longhaul::checkpoint
