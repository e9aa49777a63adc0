// Opens a checkpoint of any format that is known here.
//
// What it is is told by what is there: a MANIFEST, a .metadata, an index of shards, a ZIP archive,
// a safetensors header; a run's folder, or that of its steps, is its newest. Nothing that is read
// is run, and no name that is read leads out of the checkpoint's folder. docs/checkpoint-formats.md
// has what is taken of each format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/directory.h"
#include "checkpoint/formats/catalog.h"
#include "checkpoint/manifest.h"
#include "io/files/file.h"

namespace longhaul::checkpoint {

// A file of a run's checkpoint that can't be used, and why.
struct DamagedFile {
  std::string path;
  std::string what;
};

// kNotFound when there is nothing, kInvalidArgument when it is no checkpoint of a known format,
// kDataLoss when it is damaged; each names the file. With `damaged`, files of a run's checkpoint
// whose own header is damaged are told there, and their tensors can't be read.
Result<Catalog> OpenCheckpoint(io::FileSystem& files, const std::string& path,
                               std::vector<DamagedFile>* damaged = nullptr);

// The steps of a run: `path` is the folder of its steps, or the one that holds that folder as
// "checkpoints", or the folder of one step, which is then the only one.
struct StepsAt {
  std::string folder;  // of the steps
  StepSurvey steps;
};
// An absent folder has none. kInvalidArgument when it holds a checkpoint of another format.
Result<StepsAt> FindSteps(io::FileSystem& files, const std::string& path);

// The newest step of a run. kNotFound when none was ever committed; kDataLoss when the newest one
// is damaged: an older one is never opened in its place.
Result<Catalog> OpenNewest(io::FileSystem& files, const std::string& path,
                           std::vector<DamagedFile>* damaged = nullptr);

// The formats one by one. A step of a run: by its folder, or as OpenNewest, or by a manifest of
// `parent`.
Result<Catalog> OpenStep(io::FileSystem& files, const std::string& path,
                         std::vector<DamagedFile>* damaged = nullptr);
Result<Catalog> OpenManifest(io::FileSystem& files, const std::string& parent,
                             const Manifest& manifest, std::vector<DamagedFile>* damaged = nullptr);
// The same with the tree of values (state_tree.h) left among the tensors, as it was registered.
Result<Catalog> OpenPieces(io::FileSystem& files, const std::string& parent,
                           const Manifest& manifest, std::vector<DamagedFile>* damaged = nullptr);
Result<Catalog> OpenSafetensorsFile(io::FileSystem& files, const std::string& path);
// `path` is the index, "model.safetensors.index.json", or its folder.
Result<Catalog> OpenSafetensorsIndex(io::FileSystem& files, const std::string& path);
Result<Catalog> OpenTorchFile(io::FileSystem& files, const std::string& path);
Result<Catalog> OpenDistributed(io::FileSystem& files, const std::string& path);

}  // namespace longhaul::checkpoint
