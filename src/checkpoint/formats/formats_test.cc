// Formats of others: what PyTorch wrote is read, what we write reads back, hostile files are
// refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/pickle/pickle_writer.h"
#include "checkpoint/formats/catalog_reader.h"
#include "checkpoint/formats/compare.h"
#include "checkpoint/formats/numbers.h"
#include "checkpoint/formats/open_checkpoint.h"
#include "checkpoint/formats/testing.h"
#include "checkpoint/formats/torch_file.h"
#include "checkpoint/formats/verify.h"
#include "checkpoint/formats/write_checkpoint.h"
#include "checkpoint/formats/zip.h"
#include "checkpoint/testing.h"
#include "io/files/file.h"
#include "io/files/patchable_file.h"
#include "sim/crash_file_system.h"

namespace longhaul::checkpoint {
namespace {

using ::testing::HasSubstr;
using testing_support::MemoryFile;
using testing_support::Put;

const std::string kData = "src/checkpoint/formats/testdata/";

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "formats-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::vector<float> Floats(const Catalog& catalog, const std::string& name) {
  const uint32_t tensor = catalog.Find(name).value();
  std::vector<float> values(catalog.TensorBytes(tensor) / 4);
  CatalogReader reader(io::PosixFileSystem(), catalog);
  const Status read = reader.ReadRange(tensor, 0, std::as_writable_bytes(std::span(values)));
  EXPECT_TRUE(read.ok()) << read;
  return values;
}

std::string Message(const Status& status) { return status.message(); }

// Written by PyTorch 1.13 (Debian 12) and 2.15, of one state: {"w": arange(6).reshape(2, 3), "t":
// its transpose, "row": its second row, "b": bfloat16 [1.5, -2], "deep": {"n": [7, "x", 0.5,
// None]}, "step": 3}.
TEST(TorchFile, ReadsWhatPyTorchWrote) {
  for (const char* name : {"torch-1.13.pt", "torch-2.15.pt"}) {
    SCOPED_TRACE(name);
    const auto catalog = OpenCheckpoint(io::PosixFileSystem(), kData + name);
    ASSERT_TRUE(catalog.ok()) << catalog.status();
    EXPECT_EQ(catalog->format, Format::kTorch);
    EXPECT_EQ(Floats(*catalog, "w"), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(Floats(*catalog, "t"), (std::vector<float>{0, 3, 1, 4, 2, 5}));
    EXPECT_EQ(Floats(*catalog, "row"), (std::vector<float>{3, 4, 5}));
    EXPECT_EQ(FormOf(catalog->tensors[catalog->Find("t").value()]), "F32 [3, 2]");
    EXPECT_EQ(FormOf(catalog->tensors[catalog->Find("b").value()]), "BF16 [2]");
    EXPECT_EQ(FormOf(catalog->tensors[catalog->Find("deep.n.0").value()]), "I64 []");
    EXPECT_EQ(catalog->tree->dump(),
              R"({"d":[["w",{"t":0}],["t",{"t":1}],["row",{"t":2}],["b",{"t":3}],)"
              R"(["deep",{"d":[["n",{"l":[{"t":4},{"v":"x"},{"v":0.5},{"v":null}]}]]}],)"
              R"(["step",{"v":3}]]})");
    const auto verified = VerifyCheckpoint(io::PosixFileSystem(), kData + name, {});
    ASSERT_TRUE(verified.ok()) << verified.status();
    EXPECT_TRUE(verified->good());
  }
}

// By torch.distributed.checkpoint of PyTorch 2.15: {"w": as above, "deep": {"b": ...}, "step": 3}.
// The second under Python 3.11.2, which pickles an enum as a call of getattr.
TEST(Distributed, ReadsWhatPyTorchWrote) {
  for (const char* name : {"dcp-2.15", "dcp-2.15-enum"}) {
    SCOPED_TRACE(name);
    const auto catalog = OpenCheckpoint(io::PosixFileSystem(), kData + name);
    ASSERT_TRUE(catalog.ok()) << catalog.status();
    EXPECT_EQ(catalog->format, Format::kDistributed);
    EXPECT_EQ(Floats(*catalog, "w"), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    EXPECT_TRUE(catalog->Find("deep.b").has_value());
    EXPECT_THAT(catalog->tree->dump(), HasSubstr(R"(["step",{"v":3}])"));
  }
}

TEST(WriteCheckpoint, ThroughEveryFormatIsTheSameState) {
  Folder folder;
  io::FileSystem& files = io::PosixFileSystem();
  const auto source = OpenCheckpoint(files, kData + "torch-1.13.pt");
  ASSERT_TRUE(source.ok()) << source.status();
  const struct {
    Format format;
    const char* name;
    uint64_t shard_bytes;
  } kRows[] = {{Format::kTorch, "a.pt", 0},
               {Format::kSafetensors, "a.safetensors", 0},
               {Format::kSafetensors, "shards", 20},
               {Format::kDistributed, "dcp", 0},
               {Format::kDistributed, "dcp-files", 1},
               {Format::kLonghaul, "run", 0}};
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.name);
    WriteOptions options;
    options.format = row.format;
    options.max_shard_bytes = row.shard_bytes;
    options.step = 3;
    const Status written = WriteCheckpoint(files, *source, folder / row.name, options);
    ASSERT_TRUE(written.ok()) << written;
    const auto back = OpenCheckpoint(files, folder / row.name);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->format, row.format);
    const auto comparison = CompareCheckpoints(files, *source, files, *back, nullptr);
    ASSERT_TRUE(comparison.ok()) << comparison.status();
    EXPECT_TRUE(comparison->equal());
    EXPECT_EQ(comparison->tensors.size(), 5u);
    const auto verified = VerifyCheckpoint(files, folder / row.name, {});
    ASSERT_TRUE(verified.ok()) << verified.status();
    EXPECT_TRUE(verified->good());
    EXPECT_EQ(WriteCheckpoint(files, *source, folder / row.name, options).code(),
              Code::kAlreadyExists);
  }
}

// A run's step in a simulated disk, of one rank with these tensors and this tree.
void SaveStep(io::FileSystem& files, uint64_t step, const std::vector<std::string>& names,
              const std::string& tree) {
  std::vector<TensorInfo> infos;
  for (const std::string& name : names) infos.push_back({name, "F32", {2}});
  infos.push_back({std::string(kTreeTensor), "U8", {static_cast<int64_t>(tree.size())}});
  testing_support::State state(*StatePlan::Create(infos), step);
  std::memcpy(state.Writable().back().data(), tree.data(), tree.size());
  CheckpointDirectory directory(files, "/run/checkpoints");
  Manifest manifest = testing_support::ManifestOf(step, 1, 1);
  const auto piece = directory.WritePiece(step, 1, 0, 1, state.plan(), state.Tensors());
  ASSERT_TRUE(piece.ok()) << piece.status();
  manifest.files.push_back(*piece);
  ASSERT_TRUE(directory.Commit(manifest).ok());
}

std::vector<std::string> NamesIn(io::FileSystem& files) {
  const auto catalog = OpenCheckpoint(files, "/run");
  EXPECT_TRUE(catalog.ok()) << catalog.status();
  return catalog.ok() ? catalog->Names() : std::vector<std::string>();
}

constexpr const char* kNested =
    R"({"d":[["model",{"d":[["0.weight",{"t":0}],["a/b",{"t":1}]]}],["n",{"l":[{"t":2}]}]]}   )";

TEST(LonghaulNames, AreJoinedByDotsWhereAnOlderCheckpointHasSlashes) {
  using Names = std::vector<std::string>;
  const struct {
    const char* why;
    Names saved;
    Names opened;
  } kRows[] = {{"an older one",
                {"model/0.weight", "model/a/b", "n/0"},
                {"model.0.weight", "model.a/b", "n.0"}},
               {"a newer one",
                {"model.0.weight", "model.a/b", "n.0"},
                {"model.0.weight", "model.a/b", "n.0"}},
               {"a tensor without a place in the tree",
                {"model/0.weight", "model/a/b", "n/0", "later/1"},
                {"model.0.weight", "model.a/b", "n.0", "later/1"}},
               {"names of neither kind stay", {"x", "y/z", "w"}, {"x", "y/z", "w"}},
               {"two would have one name",
                {"model/0.weight", "model/a/b", "n/0", "model.0.weight"},
                {"model/0.weight", "model/a/b", "n/0", "model.0.weight"}}};
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.why);
    sim::CrashFileSystem files;
    SaveStep(files, 10, row.saved, kNested);
    EXPECT_EQ(NamesIn(files), row.opened);
  }
}

TEST(OpenCheckpoint, NeverOpensAnOlderStepInPlaceOfADamagedOne) {
  sim::CrashFileSystem files;
  SaveStep(files, 10, {"a"}, R"({"t":0})");
  SaveStep(files, 20, {"a"}, R"({"t":0})");
  const std::string newest = "/run/checkpoints/step-000000020.e1";
  EXPECT_EQ(OpenCheckpoint(files, "/run")->step, 20u);
  files.FlipBit(newest + "/MANIFEST", 100);
  for (const char* path : {"/run", "/run/checkpoints", "/run/checkpoints/"}) {
    const auto opened = OpenCheckpoint(files, path);
    EXPECT_EQ(opened.status().code(), Code::kDataLoss) << path;
    EXPECT_THAT(Message(opened.status()), HasSubstr("such as step-000000010.e1"));
  }
  EXPECT_EQ(OpenCheckpoint(files, "/run/checkpoints/step-000000010.e1")->step, 10u);
  // Without its manifest a step is none, though its one file could be read by itself.
  ASSERT_TRUE(files.Remove(newest + "/MANIFEST").ok());
  EXPECT_EQ(OpenCheckpoint(files, newest).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(OpenCheckpoint(files, "/run")->step, 10u);
}

TEST(VerifyRun, NamesEachDamagedStepAndHowManyStepsAreLost) {
  sim::CrashFileSystem files;
  for (const uint64_t step : {10u, 20u, 30u}) SaveStep(files, step, {"a"}, R"({"t":0})");
  const std::string shard = "/" + PieceName(0, 1);
  files.FlipBit("/run/checkpoints/step-000000030.e1/MANIFEST", 100);
  files.FlipBit("/run/checkpoints/step-000000020.e1" + shard, 8 * 4096);
  const auto run = VerifyRun(files, "/run", {});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->steps.size(), 3u);
  EXPECT_FALSE(run->good());
  EXPECT_FALSE(run->steps[0].found.good());
  ASSERT_EQ(run->steps[1].found.damage.size(), 1u);
  EXPECT_EQ(run->steps[1].found.damage[0].tensors, std::vector<std::string>{"a"});
  EXPECT_TRUE(run->steps[2].found.good());
  EXPECT_EQ(run->newest_good()->name, "step-000000010.e1");
  EXPECT_EQ(run->steps_lost(), 20u);
}

TEST(WriteCheckpoint, StoppedLeavesNothing) {
  Folder folder;
  io::FileSystem& files = io::PosixFileSystem();
  const auto source = OpenCheckpoint(files, kData + "torch-1.13.pt");
  ASSERT_TRUE(source.ok());
  WriteOptions options;
  options.progress = [](uint64_t, uint64_t) { return false; };
  for (const Format format : {Format::kTorch, Format::kDistributed}) {
    options.format = format;
    EXPECT_EQ(WriteCheckpoint(files, *source, folder / "x", options).code(), Code::kCancelled);
    EXPECT_FALSE(std::filesystem::exists(folder / "x"));
    EXPECT_FALSE(std::filesystem::exists(folder / "x.partial"));
  }
}

TEST(TorchFile, CutAnywhereIsRefusedAndAFlippedBitFound) {
  for (const char* name : {"torch-1.13.pt", "torch-2.15.pt"}) {
    const auto text = io::ReadText(kData + name, 1 << 20);
    ASSERT_TRUE(text.ok());
    for (size_t bytes = 0; bytes < text->size(); ++bytes) {
      const MemoryFile cut(text->substr(0, bytes));
      ASSERT_FALSE(ReadTorchFile(cut, 0, bytes).ok()) << name << " cut at " << bytes;
    }
    const auto entries = ReadZip(MemoryFile(*text), 0, text->size());
    ASSERT_TRUE(entries.ok());
    for (const ZipEntry& entry : *entries) {
      for (uint64_t at = entry.offset; at < entry.offset + entry.bytes; ++at) {
        std::string flipped = *text;
        flipped[at] = static_cast<char>(flipped[at] ^ 4);
        const Status sound = VerifyTorchFile(MemoryFile(flipped), 0, flipped.size());
        ASSERT_FALSE(sound.ok()) << name << " at " << at;
        ASSERT_THAT(Message(sound), HasSubstr("at byte " + std::to_string(entry.offset)));
      }
    }
  }
}

// An archive as torch.save makes it, of one pickle and one storage "0" of 16 bytes.
std::string Archive(std::string pickle) {
  Folder folder;
  const std::string path = folder / "a.pt";
  auto file = io::PatchableFile::Create(path);
  CHECK(file.ok());
  ZipWriter zip(*file);
  CHECK(zip.Add("a/data.pkl", pickle).ok());
  CHECK(zip.Add("a/data/0", std::string(16, 'x')).ok());
  CHECK(zip.Finish().ok() && file->Close().ok());
  return *io::ReadText(path, 1 << 20);
}

struct Rebuild {
  int64_t first = 0;
  std::vector<int64_t> shape = {4};
  std::vector<int64_t> strides = {1};
  const char* storage = "FloatStorage";
  const char* key = "0";
};

std::string TensorPickle(const Rebuild& tensor) {
  PickleWriter writer;
  writer.Global("torch._utils", "_rebuild_tensor_v2");
  writer.Mark();
  writer.Mark();
  writer.Text("storage");
  writer.Global("torch", tensor.storage);
  writer.Text(tensor.key);
  writer.Text("cpu");
  writer.Int(4);
  writer.Tuple();
  writer.PersistentId();
  writer.Int(tensor.first);
  for (const auto* list : {&tensor.shape, &tensor.strides}) {
    writer.Mark();
    for (const int64_t number : *list) writer.Int(number);
    writer.Tuple();
  }
  writer.Bool(false);
  writer.Tuple();
  writer.Reduce();
  return std::move(writer).Take();
}

TEST(TorchFile, RefusesHostilePicklesNamingWhy) {
  constexpr int64_t kHuge = int64_t{1} << 45;
  const auto system = [] {
    PickleWriter writer;
    writer.Global("os", "system");
    writer.Mark();
    writer.Text("true");
    writer.Tuple();
    writer.Reduce();
    return std::move(writer).Take();
  };
  const auto bomb = [] {  // a list of ten times a list of ten times ..., eleven levels
    std::string text = "\x80\x02]q";
    text += '\0';
    for (char level = 0; level < 11; ++level) {
      text += "](";
      for (int i = 0; i < 10; ++i) text += std::string("h") + level;
      text += std::string("eq") + static_cast<char>(level + 1);
    }
    return text + ".";
  };
  const struct {
    const char* what;
    std::string pickle;
    const char* reason;
  } kRows[] = {
      {"code", system(), "names os.system"},
      {"out of its storage", TensorPickle({.first = 1}), "reaches out of its storage"},
      {"out by its strides", TensorPickle({.strides = {2}}), "reaches out of its storage"},
      {"a negative stride", TensorPickle({.strides = {-1}}), "a size or stride that can't be"},
      {"a huge size", TensorPickle({.shape = {kHuge, kHuge}, .strides = {0, 0}}), "64 TiB"},
      {"a size that overflows", TensorPickle({.shape = {1 << 30}, .strides = {kHuge}}),
       "reaches out"},
      {"a storage that isn't there", TensorPickle({.key = "1"}), "is not in the archive"},
      {"a class of its own", TensorPickle({.storage = "QInt8Storage"}), "torch.QInt8Storage"},
      {"more strides than dimensions", TensorPickle({.strides = {1, 1}}), "parts don't fit"},
      {"a small pickle of 10^11 values", bomb(), "more than 20000000 values"},
  };
  for (const auto& row : kRows) {
    const std::string archive = Archive(row.pickle);
    const auto file = ReadTorchFile(MemoryFile(archive), 0, archive.size());
    ASSERT_FALSE(file.ok()) << row.what;
    EXPECT_THAT(Message(file.status()), HasSubstr(row.reason)) << row.what;
  }
  const std::string fine = Archive(TensorPickle({}));
  EXPECT_TRUE(ReadTorchFile(MemoryFile(fine), 0, fine.size()).ok());
}

TEST(OpenCheckpoint, RefusesAHugeTensorOverAFewBytes) {
  sim::CrashFileSystem files;
  Put(files, "/a.pt", Archive(TensorPickle({.shape = {int64_t{1} << 40}, .strides = {0}})));
  const auto catalog = OpenCheckpoint(files, "/a.pt");
  ASSERT_FALSE(catalog.ok());
  EXPECT_EQ(catalog.status().code(), Code::kResourceExhausted) << catalog.status();
}

TEST(ReadZip, RefusesAnEntryThatComesTwice) {
  Folder folder;
  auto file = io::PatchableFile::Create(folder / "a.zip");
  ASSERT_TRUE(file.ok());
  ZipWriter zip(*file);
  ASSERT_TRUE(zip.Add("a", "1").ok() && zip.Add("a", "2").ok() && zip.Finish().ok());
  const std::string archive = *io::ReadText(folder / "a.zip", 1 << 20);
  const auto entries = ReadZip(MemoryFile(archive), 0, archive.size());
  ASSERT_FALSE(entries.ok());
  EXPECT_THAT(Message(entries.status()), HasSubstr("is there twice"));
}

std::string Safetensors(const std::string& json, size_t data) {
  const uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + json + std::string(data, '\1');
}

TEST(OpenCheckpoint, KeepsAnIndexInsideOfItsFolder) {
  for (const char* name : {"../secret.safetensors", "/etc/passwd", "", "..", "a/b"}) {
    sim::CrashFileSystem files;
    ASSERT_TRUE(files.MakeDirectories("/m").ok());
    Put(files, "/m/model.safetensors.index.json",
        "{\"weight_map\": {\"w\": \"" + std::string(name) + "\"}}");
    const auto catalog = OpenCheckpoint(files, "/m");
    ASSERT_FALSE(catalog.ok()) << name;
    EXPECT_THAT(Message(catalog.status()), HasSubstr("is not the name of a file")) << name;
  }
}

TEST(OpenCheckpoint, HoldsAnIndexAndItsShardsToEachOther) {
  sim::CrashFileSystem files;
  ASSERT_TRUE(files.MakeDirectories("/m").ok());
  Put(files, "/m/a.safetensors",
      Safetensors(R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2));
  const auto open = [&](const std::string& index) {
    Put(files, "/m/model.safetensors.index.json", index);
    return OpenCheckpoint(files, "/m");
  };
  EXPECT_TRUE(open(R"({"weight_map": {"w": "a.safetensors"}})").ok());
  EXPECT_THAT(Message(open(R"({"weight_map": {"v": "a.safetensors"}})").status()),
              HasSubstr("tensor w of a.safetensors is not there in the weight_map"));
  EXPECT_THAT(
      Message(open(R"({"weight_map": {"w": "a.safetensors", "v": "a.safetensors"}})").status()),
      HasSubstr("names 2 tensors, the files have 1"));
  EXPECT_THAT(Message(open(R"([])").status()), HasSubstr("no JSON object with a weight_map"));
}

TEST(OpenCheckpoint, SaysWhatABarePickleIs) {
  sim::CrashFileSystem files;
  Put(files, "/old.pt", "\x80\x02}q.");
  EXPECT_THAT(Message(OpenCheckpoint(files, "/old.pt").status()), HasSubstr("a bare pickle"));
  Put(files, "/x", "hello");
  EXPECT_THAT(Message(OpenCheckpoint(files, "/x").status()), HasSubstr("no checkpoint"));
  EXPECT_EQ(OpenCheckpoint(files, "/absent").status().code(), Code::kNotFound);
}

TEST(CheckCatalog, RefusesShardsOutsideAndElementsNowhere) {
  Catalog catalog;
  catalog.files.push_back({"f", 16, {}});
  catalog.tensors.push_back({"w", "F32", {4}});
  const auto with = [&](std::vector<SavedShard> shards) {
    catalog.shards = std::move(shards);
    return CheckCatalog(catalog);
  };
  const auto box = [](int64_t offset, int64_t extent) {
    return Box::At(std::vector<int64_t>{offset}, std::vector<int64_t>{extent});
  };
  EXPECT_TRUE(with({{0, box(0, 4), 0, 0}}).ok());
  EXPECT_TRUE(with({{0, box(0, 3), 0, 0}, {0, box(1, 3), 0, 4}}).ok());  // overlapping: replicas
  EXPECT_THAT(Message(with({{0, box(0, 4), 0, 4}})), HasSubstr("lies outside of f"));
  EXPECT_THAT(Message(with({{0, box(1, 4), 0, 0}})), HasSubstr("outside of the tensor"));
  EXPECT_THAT(Message(with({{0, box(0, 2), 0, 0}, {0, box(3, 1), 0, 8}})),
              HasSubstr("not all there"));
  EXPECT_THAT(Message(with({{0, box(0, 4), 1, 0}})), HasSubstr("is in no file"));
}

TEST(CompareCheckpoints, TellsHowMuchWhereAndWhat) {
  sim::CrashFileSystem files;
  const auto write = [&](const std::string& path, std::vector<float> w, const char* dtype) {
    std::string file = Safetensors(
        std::string(R"({"__metadata__":{"longhaul.tree":"{\"d\":[[\"lr\",{\"v\":)") +
            (path == "/a" ? "0.1" : "0.2") + R"(}],[\"w\",{\"t\":0}]]}"},"w":{"dtype":")" + dtype +
            R"(","shape":[2,2],"data_offsets":[0,16]}})",
        0);
    file.append(reinterpret_cast<const char*>(w.data()), 16);
    Put(files, path, file);
    return *OpenSafetensorsFile(files, path);
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Catalog a = write("/a", {1, 2, 4, nan}, "F32");
  const Catalog b = write("/b", {1, 3, 4.5F, nan}, "F32");
  const auto found = CompareCheckpoints(files, a, files, b, nullptr);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->tensors.size(), 1u);
  const TensorDifference& w = found->tensors[0];
  EXPECT_EQ(w.kind, DifferenceKind::kValues);
  EXPECT_EQ(w.differing, 2u);
  EXPECT_EQ(w.elements, 4u);
  EXPECT_EQ(w.max_absolute, 1.0);
  EXPECT_DOUBLE_EQ(w.max_relative, 1.0 / 3);
  EXPECT_EQ(w.first_place, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(w.first_value, 2);
  EXPECT_EQ(w.second_value, 3);
  EXPECT_EQ(found->values, std::vector<std::string>{"lr: 0.1 here, 0.2 there"});
  const auto other =
      CompareCheckpoints(files, a, files, write("/c", {1, 2, 4, nan}, "I32"), nullptr);
  EXPECT_EQ(other->tensors[0].kind, DifferenceKind::kShapeOrDtype);
}

TEST(Numbers, AreWhatTheDtypesSay) {
  const struct {
    const char* dtype;
    uint64_t bits;
    double value;
  } kRows[] = {
      {"F16", 0x3C00, 1},
      {"F16", 0x0001, 5.9604644775390625e-08},
      {"F16", 0xFBFF, -65504},
      {"BF16", 0x3F80, 1},
      {"F8_E5M2", 0x3C, 1},
      {"F8_E5M2", 0x7B, 57344},
      {"F8_E4M3", 0x38, 1},
      {"F8_E4M3", 0x7E, 448},
      {"F8_E4M3", 0x01, 0.001953125},  // the smallest: 2^-9
      {"I8", 0xFF, -1},
      {"U16", 0xFFFF, 65535},
      {"I64", ~uint64_t{0}, -1},
      {"F32", 0xBF800000, -1},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(NumberAt(row.dtype, std::as_bytes(std::span(&row.bits, 1)), 0), row.value)
        << row.dtype << " " << row.bits;
  }
}

TEST(CountNonFinite, FindsEachKindAndTheFirst) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {1, inf, std::numeric_limits<float>::quiet_NaN(), -inf};
  NonFinite found;
  CountNonFinite("F32", std::as_bytes(std::span(values)), 10, found);
  EXPECT_EQ(found.nan, 1u);
  EXPECT_EQ(found.infinite, 2u);
  EXPECT_EQ(found.first, 11u);
  NonFinite none;
  CountNonFinite("I32", std::as_bytes(std::span(values)), 0, none);
  EXPECT_FALSE(none.first.has_value());
  const uint8_t e4m3[] = {0x7E, 0x7F, 0x78};  // 448, NaN, 256: no infinities
  NonFinite small;
  CountNonFinite("F8_E4M3", std::as_bytes(std::span(e4m3)), 0, small);
  EXPECT_EQ(small.nan, 1u);
  EXPECT_EQ(small.infinite, 0u);
}

}  // namespace
}  // namespace longhaul::checkpoint
