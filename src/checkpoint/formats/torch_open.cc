// One file of torch.save.
#include <utility>

#include "base/text.h"
#include "checkpoint/formats/internal/open_parts.h"
#include "checkpoint/formats/open_checkpoint.h"

namespace longhaul::checkpoint {

Result<Catalog> OpenTorchFile(io::FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, files.Open(path));
  Result<TorchFile> torch = ReadTorchFile(*file, 0, file->bytes());
  if (!torch.ok()) return torch.status().WithContext(path);
  Catalog catalog;
  catalog.format = Format::kTorch;
  catalog.path = path;
  catalog.files.push_back({path, file->bytes(), {}, {{0, file->bytes()}}});
  for (uint32_t i = 0; i < torch->tensors.size(); ++i) {
    catalog.tensors.push_back(torch->tensors[i].info);
    const Status added = internal::AddStrided(*file, 0, torch->tensors[i], i,
                                              Box::Whole(torch->tensors[i].info.shape), catalog);
    if (!added.ok()) return added.WithContext(path);
  }
  catalog.tree = std::move(torch->tree);
  const Status checked = CheckCatalog(catalog);
  if (!checked.ok()) return checked.WithContext(path);
  return catalog;
}

}  // namespace longhaul::checkpoint
