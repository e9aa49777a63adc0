#include "bin/tools/checkpoint/parts.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "io/files/file.h"

namespace longhaul::bin::checkpoints {
namespace {

bool HasSteps(io::FileSystem& files, const std::string& path) {
  const auto names = files.List(path);
  return names.ok() && std::any_of(names->begin(), names->end(), [](const std::string& name) {
           return name.starts_with("step-");
         });
}

}  // namespace

Result<std::string> RunFolder(io::FileSystem& files, const std::string& path) {
  std::string folder = path;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  for (const std::string& candidate : {folder, folder + "/checkpoints"}) {
    if (HasSteps(files, candidate)) return candidate;
  }
  const auto names = files.List(folder);
  if (!names.ok()) return names.status();
  return NotFound(folder + " holds no step of a run: expected folders named step-... in it or in " +
                  folder + "/checkpoints");
}

std::string Clean(std::string_view text) { return Printable(text, 400); }

void Print(const nlohmann::ordered_json& json) {
  std::printf("%s\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace longhaul::bin::checkpoints
