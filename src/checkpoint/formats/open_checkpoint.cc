#include "checkpoint/formats/open_checkpoint.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace longhaul::checkpoint {
namespace {

bool Contains(const std::vector<std::string>& sorted, std::string_view name) {
  return std::binary_search(sorted.begin(), sorted.end(), name);
}

// Opens what kind of file it is by how it begins.
Result<Catalog> OpenFile(io::FileSystem& files, const std::string& path) {
  if (path.ends_with(".safetensors.index.json")) return OpenSafetensorsIndex(files, path);
  ASSIGN_OR_RETURN(const auto file, files.Open(path));
  std::vector<std::byte> start(std::min<uint64_t>(file->bytes(), 9));
  RETURN_IF_ERROR(file->Read(0, start));
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  if (text.starts_with("PK\x03\x04")) return OpenTorchFile(files, path);
  if (text.size() == 9 && text[8] == '{') return OpenSafetensorsFile(files, path);
  if (text.starts_with("\x80")) {
    return InvalidArgument(path +
                           ": a bare pickle (torch.save of before 1.6, or pickle.dump): load and "
                           "save it again with a newer PyTorch");
  }
  return InvalidArgument(path +
                         ": no checkpoint of a known format (safetensors, torch.save, a "
                         "folder of torch.distributed.checkpoint or of Longhaul)");
}

}  // namespace

Result<Catalog> OpenCheckpoint(io::FileSystem& files, const std::string& given,
                               std::vector<DamagedFile>* damaged) {
  std::string path = given;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (files.Size(path).ok()) return OpenFile(files, path);
  const Result<std::vector<std::string>> names = files.List(path);
  if (!names.ok()) return names.status();
  // A step without a manifest is none, even where its one file could be read by itself.
  const bool is_step = CheckpointDirectory::IsStepName(path.substr(path.rfind('/') + 1));
  if (is_step || Contains(*names, "MANIFEST")) return OpenStep(files, path, damaged);
  if (Contains(*names, ".metadata")) return OpenDistributed(files, path);
  const auto any = [&](auto test) { return std::any_of(names->begin(), names->end(), test); };
  if (any([](const std::string& name) { return name.ends_with(".safetensors.index.json"); })) {
    return OpenSafetensorsIndex(files, path);
  }
  if (any([](const std::string& name) { return name.starts_with("step-"); })) {
    return OpenStep(files, path, damaged);
  }
  if (Contains(*names, "checkpoints")) return OpenStep(files, path + "/checkpoints", damaged);
  std::vector<std::string> alone;
  for (const std::string& name : *names) {
    if (name.ends_with(".safetensors")) alone.push_back(name);
  }
  if (alone.size() == 1) return OpenSafetensorsFile(files, path + "/" + alone.front());
  return InvalidArgument(path +
                         ": no MANIFEST, no .metadata, no *.safetensors.index.json and no "
                         "committed step in this folder");
}

}  // namespace longhaul::checkpoint
