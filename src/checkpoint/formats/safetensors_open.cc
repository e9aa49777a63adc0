// One file of safetensors, or many with an index.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "checkpoint/formats/internal/open_parts.h"
#include "checkpoint/formats/open_checkpoint.h"

namespace longhaul::checkpoint {
namespace {

constexpr uint64_t kMaxIndexBytes = 512 << 20;
constexpr std::string_view kIndexEnd = ".safetensors.index.json";

// The name of the one index in a folder.
Result<std::string> FindIndex(io::FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(path));
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (name.ends_with(kIndexEnd)) found.push_back(name);
  }
  if (found.empty()) return NotFound(path + " has no *" + std::string(kIndexEnd));
  if (found.size() > 1) {
    return InvalidArgument(path + " has several indexes: name one, " + found[0] + " or " +
                           found[1]);
  }
  return path + "/" + found.front();
}

// tensor -> file, as the index says.
Result<std::map<std::string, std::string>> ReadWeightMap(io::FileSystem& files,
                                                         const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, files.ReadAll(path, kMaxIndexBytes));
  const char* text = reinterpret_cast<const char*>(bytes.data());
  const auto shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    return depth <= 16;
  };
  const nlohmann::json index =
      nlohmann::json::parse(text, text + bytes.size(), shallow, /*allow_exceptions=*/false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return DataLoss(path + ": no JSON object with a weight_map");
  }
  std::map<std::string, std::string> map;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    if (!file.is_string()) return DataLoss(path + ": the file of " + Printable(tensor));
    map[tensor] = file.get<std::string>();
    const Status name = internal::CheckFileName(map[tensor]);
    if (!name.ok()) return name.WithContext(path);
  }
  return map;
}

}  // namespace

Result<Catalog> OpenSafetensorsFile(io::FileSystem& files, const std::string& path) {
  Catalog catalog;
  catalog.format = Format::kSafetensors;
  catalog.path = path;
  ASSIGN_OR_RETURN(SafetensorsHeader header, internal::ReadSafetensors(files, path));
  internal::AddWholeTensors(header, path, catalog);
  catalog.metadata = std::move(header.metadata);
  RETURN_IF_ERROR(internal::TakeTree(files, catalog));
  RETURN_IF_ERROR(CheckCatalog(catalog));
  return catalog;
}

// Index and files must name the same tensors in both directions. A file of another revision would
// otherwise be mixed in.
Result<Catalog> OpenSafetensorsIndex(io::FileSystem& files, const std::string& path) {
  std::string index = path;
  if (!path.ends_with(".json")) {
    ASSIGN_OR_RETURN(index, FindIndex(files, path));
  }
  ASSIGN_OR_RETURN(const auto map, ReadWeightMap(files, index));
  const size_t slash = index.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : index.substr(0, slash);
  std::vector<std::string> names;
  for (const auto& [tensor, file] : map) names.push_back(file);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  Catalog catalog;
  catalog.format = Format::kSafetensors;
  catalog.path = path;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(SafetensorsHeader header,
                     internal::ReadSafetensors(files, folder + "/" + name));
    for (const TensorInfo& tensor : header.plan.tensors()) {
      const auto found = map.find(tensor.name);
      if (found == map.end() || found->second != name) {
        return DataLoss(index + ": tensor " + Printable(tensor.name) + " of " + name +
                        " is not there in the weight_map");
      }
    }
    internal::AddWholeTensors(header, folder + "/" + name, catalog);
    catalog.metadata.merge(header.metadata);
  }
  if (catalog.tensors.size() != map.size()) {
    return DataLoss(index + " names " + std::to_string(map.size()) + " tensors, the files have " +
                    std::to_string(catalog.tensors.size()));
  }
  RETURN_IF_ERROR(internal::TakeTree(files, catalog));
  RETURN_IF_ERROR(CheckCatalog(catalog));
  return catalog;
}

}  // namespace longhaul::checkpoint
