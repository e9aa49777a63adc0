// Checkpoints on disk for processes without an agent: the second half of include/longhaul.h.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "checkpoint/directory.h"
#include "checkpoint/formats/catalog_reader.h"
#include "checkpoint/formats/open_checkpoint.h"
#include "checkpoint/reshard/load_state.h"
#include "checkpoint/shard.h"
#include "io/files/file.h"
#include "longhaul.h"
#include "worker_api/c_edge.h"

using longhaul::Result;
using longhaul::Status;
using longhaul::worker_api::AtTheEdge;
namespace checkpoint = longhaul::checkpoint;

struct longhaul_checkpoint {
  checkpoint::Catalog catalog;
  std::vector<longhaul_tensor> tensors;
};

struct longhaul_steps {
  std::vector<std::string> texts;  // what `steps` points to: path and reason of each
  std::vector<longhaul_saved_step> steps;
};

namespace {

Status Null() { return longhaul::InvalidArgument("a pointer is null"); }

Result<std::unique_ptr<longhaul_checkpoint>> Open(const char* path) {
  if (path == nullptr) return Null();
  auto opened = std::make_unique<longhaul_checkpoint>();
  ASSIGN_OR_RETURN(opened->catalog, checkpoint::OpenStep(longhaul::io::PosixFileSystem(), path));
  for (uint32_t i = 0; i < opened->catalog.tensors.size(); ++i) {
    const checkpoint::TensorInfo& tensor = opened->catalog.tensors[i];
    opened->tensors.push_back({tensor.name.c_str(), nullptr, opened->catalog.TensorBytes(i),
                               tensor.dtype.c_str(), tensor.shape.data(), tensor.shape.size()});
  }
  return opened;
}

Result<std::unique_ptr<longhaul_steps>> FindSteps(const char* folder) {
  if (folder == nullptr) return Null();
  ASSIGN_OR_RETURN(const checkpoint::StepsAt found,
                   checkpoint::FindSteps(longhaul::io::PosixFileSystem(), folder));
  auto made = std::make_unique<longhaul_steps>();
  const auto add = [&](uint64_t step, uint64_t attempt, longhaul_step_state state,
                       const std::string& reason, bool complete) {
    made->texts.push_back(found.folder + "/" +
                          checkpoint::CheckpointDirectory::NameOf(step, attempt));
    made->texts.push_back(reason);
    made->steps.push_back({step, attempt, state, nullptr, nullptr, complete ? 1 : 0});
  };
  for (const auto& one : found.steps.committed) {
    add(one.step, one.attempt, LONGHAUL_STEP_COMMITTED, "", false);
  }
  for (const auto& one : found.steps.damaged) {
    add(one.step, one.attempt, LONGHAUL_STEP_DAMAGED, one.reason, false);
  }
  for (const auto& one : found.steps.uncommitted) {
    add(one.step, one.attempt, LONGHAUL_STEP_UNCOMMITTED, one.reason, one.complete);
  }
  for (size_t i = 0; i < made->steps.size(); ++i) {
    made->steps[i].path = made->texts[2 * i].c_str();
    made->steps[i].reason = made->texts[2 * i + 1].c_str();
  }
  std::sort(made->steps.begin(), made->steps.end(), [](const auto& a, const auto& b) {
    return std::pair(a.step, a.attempt) > std::pair(b.step, b.attempt);
  });
  return made;
}

}  // namespace

longhaul_steps* longhaul_steps_open(const char* folder, longhaul_error* error) {
  longhaul_steps* found = nullptr;
  AtTheEdge(error, [&]() -> Status {
    ASSIGN_OR_RETURN(std::unique_ptr<longhaul_steps> made, FindSteps(folder));
    found = made.release();
    return {};
  });
  return found;
}

void longhaul_steps_close(longhaul_steps* steps) { delete steps; }

const longhaul_saved_step* longhaul_steps_get(const longhaul_steps* steps, size_t* count) {
  if (count != nullptr) *count = steps == nullptr ? 0 : steps->steps.size();
  return steps == nullptr ? nullptr : steps->steps.data();
}

int longhaul_write_piece(const char* folder, uint64_t step, uint64_t attempt, uint32_t rank,
                         uint32_t world, const longhaul_tensor* tensors, const longhaul_part* parts,
                         size_t count, longhaul_piece* piece, longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    if (folder == nullptr || piece == nullptr) return Null();
    if (step == 0 || rank >= world) {
      return longhaul::InvalidArgument("a step is from 1 on and a rank below the world's size");
    }
    ASSIGN_OR_RETURN(longhaul::worker_api::GivenTensors given,
                     longhaul::worker_api::TakeTensors(tensors, parts, count));
    const std::vector<std::span<const std::byte>> memory(given.memory.begin(), given.memory.end());
    checkpoint::CheckpointDirectory directory(longhaul::io::PosixFileSystem(), folder);
    ASSIGN_OR_RETURN(const checkpoint::PieceFile file,
                     directory.WritePiece(step, attempt, rank, world, given.plan, memory));
    *piece = {file.rank, file.bytes, file.header_bytes, file.hash};
    return {};
  });
}

int longhaul_commit(const char* folder, const char* job, uint64_t step, uint64_t attempt,
                    const longhaul_piece* pieces, uint32_t world, longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    if (folder == nullptr || job == nullptr || pieces == nullptr) return Null();
    checkpoint::Manifest manifest;
    manifest.job = job;
    manifest.step = step;
    manifest.attempt = attempt;
    manifest.world = world;
    for (uint32_t i = 0; i < world; ++i) {
      if (pieces[i].rank != i) return longhaul::InvalidArgument("pieces must be by rank, from 0");
      manifest.files.push_back({checkpoint::PieceName(i, world), i, pieces[i].bytes, pieces[i].hash,
                                pieces[i].header_bytes});
    }
    checkpoint::CheckpointDirectory directory(longhaul::io::PosixFileSystem(), folder);
    return directory.Commit(manifest);
  });
}

longhaul_checkpoint* longhaul_checkpoint_open(const char* path, longhaul_error* error) {
  longhaul_checkpoint* opened = nullptr;
  AtTheEdge(error, [&]() -> Status {
    ASSIGN_OR_RETURN(std::unique_ptr<longhaul_checkpoint> one, Open(path));
    opened = one.release();
    return {};
  });
  return opened;
}

void longhaul_checkpoint_close(longhaul_checkpoint* opened) { delete opened; }

uint64_t longhaul_checkpoint_step(const longhaul_checkpoint* opened) {
  return opened == nullptr ? 0 : opened->catalog.step;
}

const char* longhaul_checkpoint_tree(const longhaul_checkpoint* opened) {
  return opened == nullptr ? "" : opened->catalog.tree_text.c_str();
}

const longhaul_tensor* longhaul_checkpoint_tensors(const longhaul_checkpoint* opened,
                                                   size_t* count) {
  if (count != nullptr) *count = opened == nullptr ? 0 : opened->tensors.size();
  return opened == nullptr ? nullptr : opened->tensors.data();
}

int longhaul_checkpoint_read(longhaul_checkpoint* opened, const longhaul_tensor* tensors,
                             const longhaul_part* parts, size_t count, uint64_t* bytes_read,
                             longhaul_error* error) {
  return AtTheEdge(error, [&]() -> Status {
    if (opened == nullptr) return Null();
    ASSIGN_OR_RETURN(longhaul::worker_api::GivenTensors given,
                     longhaul::worker_api::TakeTensors(tensors, parts, count));
    ASSIGN_OR_RETURN(const auto wanted, checkpoint::WantedBoxes(opened->catalog, given.plan));
    checkpoint::CatalogReader reader(longhaul::io::PosixFileSystem(), opened->catalog);
    RETURN_IF_ERROR(reader.Read(wanted, given.memory));
    if (bytes_read != nullptr) *bytes_read = reader.count().bytes;
    return {};
  });
}
