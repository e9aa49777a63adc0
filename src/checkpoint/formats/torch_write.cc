// One file as torch.save writes it, protocol 2.
#include <utility>

#include "base/pickle/pickle_writer.h"
#include "checkpoint/formats/internal/write_parts.h"
#include "checkpoint/formats/zip.h"

namespace longhaul::checkpoint::internal {

Status WriteTorch(const Catalog& catalog, TensorStream& stream, const std::string& path) {
  const Tree tree = catalog.tree.has_value() ? *catalog.tree : FlatTree(catalog.Names());
  PickleWriter pickle;
  PickleTree(
      tree,
      [&](uint32_t tensor) {
        PickleTensor(catalog.tensors[tensor], std::to_string(tensor), pickle);
      },
      pickle);
  ASSIGN_OR_RETURN(io::PatchableFile file, io::PatchableFile::Create(path));
  ZipWriter zip(file);
  RETURN_IF_ERROR(zip.Add("archive/data.pkl", std::move(pickle).Take()));
  RETURN_IF_ERROR(zip.Add("archive/byteorder", "little"));
  for (uint32_t i = 0; i < catalog.tensors.size(); ++i) {
    RETURN_IF_ERROR(zip.Begin("archive/data/" + std::to_string(i), catalog.TensorBytes(i)));
    RETURN_IF_ERROR(
        stream.Each(i, [&](std::span<const std::byte> bytes) { return zip.Append(bytes); }));
  }
  RETURN_IF_ERROR(zip.Add("archive/version", "3\n"));
  RETURN_IF_ERROR(zip.Finish());
  return Finish(file);
}

}  // namespace longhaul::checkpoint::internal
