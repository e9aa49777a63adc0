// Opens a checkpoint of any supported format.
//
// The format is recognised by its files: a MANIFEST, a .metadata, an index of shards, a ZIP
// archive, a safetensors header. For a run's folder, or the folder of its steps, the newest step is
// opened. No data is executed, and no name in it can lead out of the checkpoint's folder.
// docs/checkpoint-formats.md lists the supported parts of each format.
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

// Returns kNotFound when there is nothing, kInvalidArgument when it is no checkpoint of a known
// format, kDataLoss when it is damaged, each with the file. If `damaged` is given, it receives
// files of a run's checkpoint with a damaged header; their tensors can't be read.
Result<Catalog> OpenCheckpoint(io::FileSystem& files, const std::string& path,
                               std::vector<DamagedFile>* damaged = nullptr);

// The steps of a run. `path` is the folder of its steps, or the folder with a "checkpoints" folder,
// or the folder of one step, which is then the only one.
struct StepsAt {
  std::string folder;  // of the steps
  StepSurvey steps;
};
// A missing folder has none. Returns kInvalidArgument when it holds a checkpoint of another format.
Result<StepsAt> FindSteps(io::FileSystem& files, const std::string& path);

// Opens the newest step of a run. Returns kNotFound when none was ever committed, and kDataLoss
// when the newest one is damaged: an older one is never opened instead.
Result<Catalog> OpenNewest(io::FileSystem& files, const std::string& path,
                           std::vector<DamagedFile>* damaged = nullptr);

// The formats one by one. A step of a run: by its folder, or as OpenNewest, or by a manifest of
// `parent`.
Result<Catalog> OpenStep(io::FileSystem& files, const std::string& path,
                         std::vector<DamagedFile>* damaged = nullptr);
Result<Catalog> OpenManifest(io::FileSystem& files, const std::string& parent,
                             const Manifest& manifest, std::vector<DamagedFile>* damaged = nullptr);
// The same, but leaves the tree of values (state_tree.h) among the tensors, as it was registered.
Result<Catalog> OpenPieces(io::FileSystem& files, const std::string& parent,
                           const Manifest& manifest, std::vector<DamagedFile>* damaged = nullptr);
Result<Catalog> OpenSafetensorsFile(io::FileSystem& files, const std::string& path);
// `path` is the index, "model.safetensors.index.json", or its folder.
Result<Catalog> OpenSafetensorsIndex(io::FileSystem& files, const std::string& path);
Result<Catalog> OpenTorchFile(io::FileSystem& files, const std::string& path);
Result<Catalog> OpenDistributed(io::FileSystem& files, const std::string& path);

}  // namespace longhaul::checkpoint
