// A step of a run: one shard, hashed chunk by chunk on its way, and the manifest.
#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "checkpoint/copy.h"
#include "checkpoint/directory.h"
#include "checkpoint/formats/internal/write_parts.h"
#include "checkpoint/shard.h"

namespace longhaul::checkpoint::internal {
namespace {

constexpr size_t kTreeStep = 4096;  // padded as the Python package pads it

// Marks every tensor as PyTorch's, which the package makes of it when it restores.
void MarkTensors(Tree& node) {
  if (node.contains("t")) {
    if (!node.contains("k")) node["k"] = "torch";
    return;
  }
  auto& [kind, content] = *node.get_ptr<Tree::object_t*>()->begin();
  for (Tree& item : content) {
    if (kind == "d") MarkTensors(item[1]);
    if (kind == "l" || kind == "u") MarkTensors(item);
  }
}

std::string PaddedTree(const Catalog& catalog) {
  Tree tree = catalog.tree.has_value() ? *catalog.tree : FlatTree(catalog.Names());
  MarkTensors(tree);
  std::string text = tree.dump();
  text.resize((text.size() / kTreeStep + 2) * kTreeStep, ' ');
  return text;
}

}  // namespace

Status WriteLonghaul(io::FileSystem& files, const Catalog& catalog, TensorStream& stream,
                     const std::string& path, const WriteOptions& options) {
  const uint64_t step = catalog.step > 0 ? catalog.step : options.step;
  if (step == 0) return InvalidArgument("a run's checkpoint needs a step: give one above 0");
  const std::string tree = PaddedTree(catalog);
  std::vector<TensorInfo> infos = catalog.tensors;
  infos.push_back({std::string(kTreeTensor), "U8", {static_cast<int64_t>(tree.size())}});
  ASSIGN_OR_RETURN(const StatePlan plan, StatePlan::Create(std::move(infos)));
  ChunkHashes hashes;
  for (size_t i = 0; i < plan.size(); ++i) hashes.emplace_back(ChunksIn(plan.bytes(i)), 0);
  const ShardId id{step, options.attempt, 0, 1};
  // The header is as long whatever the hashes: it is written again when they are known.
  ASSIGN_OR_RETURN(const std::string placeholder, EncodeShardHeader(id, plan, hashes));
  const std::string name = PieceName(0, 1);
  ASSIGN_OR_RETURN(io::PatchableFile file, io::PatchableFile::Create(path + "/" + name));
  RETURN_IF_ERROR(file.Append(std::as_bytes(std::span(placeholder))));
  for (uint32_t i = 0; i < plan.size(); ++i) {
    size_t chunk = 0;
    const auto take = [&](std::span<const std::byte> bytes) {
      for (size_t at = 0; at < bytes.size(); at += kChunkBytes) {
        hashes[i][chunk++] = HashChunk(bytes.subspan(at, std::min(kChunkBytes, bytes.size() - at)));
      }
      return file.Append(bytes);
    };
    if (i < catalog.tensors.size()) {
      RETURN_IF_ERROR(stream.Each(i, take));
    } else {
      RETURN_IF_ERROR(take(std::as_bytes(std::span(tree))));
    }
  }
  ASSIGN_OR_RETURN(const std::string header, EncodeShardHeader(id, plan, hashes));
  RETURN_IF_ERROR(file.PatchAt(0, std::as_bytes(std::span(header))));
  Manifest manifest;
  manifest.job = catalog.job.empty() ? options.job : catalog.job;
  manifest.step = step;
  manifest.attempt = options.attempt;
  manifest.world = 1;
  manifest.replicated = true;
  manifest.files.push_back({name, 0, file.bytes(), Hash64(header), header.size()});
  RETURN_IF_ERROR(Finish(file));
  ASSIGN_OR_RETURN(const ShardHeader written,
                   ParseShardHeader(std::as_bytes(std::span(header)), manifest.files[0].bytes));
  RETURN_IF_ERROR(AddPieces(written, manifest));
  return io::WriteTextAtomically(files, path + "/MANIFEST", EncodeManifest(manifest));
}

}  // namespace longhaul::checkpoint::internal
