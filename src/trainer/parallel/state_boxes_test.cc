// Any layout's state into any other, through checkpoints: saved by every rank, read by every rank.
#include "trainer/parallel/state_boxes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "checkpoint/directory.h"
#include "checkpoint/reshard/load_state.h"
#include "sim/crash_file_system.h"
#include "trainer/parallel/mesh.h"

namespace longhaul::trainer {
namespace {

const char* const kPrefixes[] = {"", "optimizer.first_moment.", "optimizer.second_moment."};

spec::ModelSpec SmallModel() {
  spec::ModelSpec model;
  model.layers = 3;  // uneven stages
  model.hidden = 8;
  model.heads = 4;
  model.sequence = 8;
  return model;
}

std::string Named(const MeshSizes& sizes) {
  return std::to_string(sizes.data) + "x" + std::to_string(sizes.tensor) + "x" +
         std::to_string(sizes.pipeline);
}

uint32_t RanksOf(const MeshSizes& sizes) { return sizes.data * sizes.tensor * sizes.pipeline; }

// The one true value of an element: a NaN, a denormal or -0 as likely as any other bits.
float ValueAt(const std::string& name, size_t index) {
  const uint64_t bits = Hash64(name, index);
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// A rank's buffers and what it registers of them.
struct RankState {
  RankState(const MeshSizes& sizes, uint32_t rank)
      : table(SmallModel(), Mesh::Create(sizes, RanksOf(sizes), rank)->part()) {
    for (auto& buffer : buffers) buffer.resize(table.floats());
    std::vector<checkpoint::TensorInfo> infos;
    for (const StateTensor& tensor : StateBoxes(table, {buffers[0], buffers[1], buffers[2]})) {
      infos.push_back({tensor.name, "F32", tensor.shape});
      if (tensor.part.has_value()) {
        infos.back().part = {tensor.part->of, tensor.part->shape, tensor.part->offset};
      }
      memory.push_back(std::as_writable_bytes(tensor.values));
    }
    plan = checkpoint::StatePlan::Create(std::move(infos)).value();
  }

  // Calls visit(element, its one true value) for all.
  template <typename Visit>
  void ForEach(Visit visit) {
    for (size_t kind = 0; kind < 3; ++kind) {
      for (const Parameter& parameter : table.parameters()) {
        for (const Stretch& stretch : Stretches(parameter)) {
          for (size_t i = 0; i < stretch.count; ++i) {
            visit(buffers[kind][parameter.offset + stretch.here + i],
                  ValueAt(kPrefixes[kind] + parameter.name, stretch.whole + i));
          }
        }
      }
    }
  }

  ParameterTable table;
  std::vector<float> buffers[3];
  checkpoint::StatePlan plan;
  std::vector<std::span<std::byte>> memory;
};

void Save(io::FileSystem& files, const MeshSizes& sizes, uint64_t step) {
  checkpoint::CheckpointDirectory directory(files, "/run");
  checkpoint::Manifest manifest;
  manifest.job = "job";
  manifest.step = step;
  manifest.attempt = 1;
  manifest.world = RanksOf(sizes);
  for (uint32_t rank = 0; rank < manifest.world; ++rank) {
    RankState state(sizes, rank);
    state.ForEach([](float& element, float value) { element = value; });
    const std::vector<std::span<const std::byte>> tensors(state.memory.begin(), state.memory.end());
    const auto piece = directory.WritePiece(step, 1, rank, manifest.world, state.plan, tensors);
    ASSERT_TRUE(piece.ok()) << piece.status();
    manifest.files.push_back(*piece);
  }
  const Status committed = directory.Commit(manifest);
  ASSERT_TRUE(committed.ok()) << committed;
}

const MeshSizes kLayouts[] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 4, 1}, {1, 1, 2},
                              {1, 1, 3}, {2, 2, 2}, {1, 2, 3}, {1, 4, 2}, {4, 1, 2}};

TEST(StateBoxes, OfAnyLayoutAreReadBitForBitFromAnyOther) {
  for (const MeshSizes& from : kLayouts) {
    sim::CrashFileSystem files;
    Save(files, from, 7);
    for (const MeshSizes& to : kLayouts) {
      for (uint32_t rank = 0; rank < RanksOf(to); ++rank) {
        SCOPED_TRACE(Named(from) + " to " + Named(to) + ", rank " + std::to_string(rank));
        RankState state(to, rank);
        const auto loaded =
            checkpoint::LoadState(files, {"/run", 7, 1, rank}, state.plan, state.memory);
        ASSERT_TRUE(loaded.ok()) << loaded.status();
        EXPECT_TRUE(!(from == to) || loaded->own_file);
        size_t wrong = 0;
        state.ForEach([&](float& element, float value) {
          wrong += std::memcmp(&element, &value, sizeof(value)) == 0 ? 0 : 1;
        });
        ASSERT_EQ(wrong, 0u);
      }
    }
  }
}

TEST(StateBoxes, GroupsOfACutParameterAreBoxesOfTheirOwn) {
  const ParameterTable table(SmallModel(), {2, 1, 1, 0});
  std::vector<float> buffer(table.floats());
  for (const StateTensor& tensor : StateBoxes(table, {buffer, buffer, buffer})) {
    if (tensor.name != "model.layers.0.attention.qkv.weight.part2") continue;
    ASSERT_TRUE(tensor.part.has_value());
    EXPECT_EQ(tensor.part->of, "model.layers.0.attention.qkv.weight");
    EXPECT_EQ(tensor.part->shape, (std::vector<int64_t>{24, 8}));
    EXPECT_EQ(tensor.part->offset, (std::vector<int64_t>{20, 0}));  // 2 x 8 and half of 8
    EXPECT_EQ(tensor.shape, (std::vector<int64_t>{4, 8}));
    return;
  }
  FAIL() << "no third group";
}

TEST(StateBoxes, ACheckpointOfAnotherModelIsRefusedByName) {
  sim::CrashFileSystem files;
  Save(files, {1, 2, 1}, 7);
  spec::ModelSpec wide = SmallModel();
  wide.hidden = 32;
  const ParameterTable table(wide);
  std::vector<float> buffer(table.floats());
  std::vector<checkpoint::TensorInfo> infos;
  std::vector<std::span<std::byte>> memory;
  for (const StateTensor& tensor : StateBoxes(table, {buffer, buffer, buffer})) {
    infos.push_back({tensor.name, "F32", tensor.shape});
    memory.push_back(std::as_writable_bytes(tensor.values));
  }
  const auto plan = checkpoint::StatePlan::Create(std::move(infos));
  const auto loaded = checkpoint::LoadState(files, {"/run", 7, 1, 0}, *plan, memory);
  EXPECT_EQ(loaded.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(loaded.status().message().find("model.embedding.token.weight is F32 [0:257, 0:8]"),
            std::string::npos)
      << loaded.status();
}

}  // namespace
}  // namespace longhaul::trainer
