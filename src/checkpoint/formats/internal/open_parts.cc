#include "checkpoint/formats/internal/open_parts.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "checkpoint/formats/catalog_reader.h"

namespace longhaul::checkpoint::internal {
namespace {

constexpr uint64_t kMaxTreeBytes = 256 << 20;

// The tensor that holds a tree, as the Python package leaves it: of bytes, behind all others of its
// rank.
struct TreeTensor {
  uint32_t index = 0;
  std::string text;
  std::optional<Tree> tree;  // nothing: the text is none
};

// Nothing when no tensor has the tree's name and form.
Result<std::optional<TreeTensor>> ReadTreeTensor(io::FileSystem& files, const Catalog& catalog) {
  const auto found = catalog.Find(kTreeTensor);
  if (!found.has_value() || catalog.tensors[*found].dtype != "U8" ||
      catalog.TensorBytes(*found) > kMaxTreeBytes) {
    return std::optional<TreeTensor>();
  }
  TreeTensor read;
  read.index = *found;
  read.text.resize(catalog.TensorBytes(*found));
  CatalogReader reader(files, catalog);
  RETURN_IF_ERROR(reader.ReadRange(*found, 0, std::as_writable_bytes(std::span(read.text))));
  // It names tensors of the rank that wrote it: those before it.
  Result<Tree> tree = ParseTree(read.text, *found);
  if (tree.ok()) read.tree = std::move(tree).value();
  read.text.resize(read.text.find_last_not_of(' ') + 1);
  return std::optional(std::move(read));
}

// The names that the tensors of an older checkpoint get: its tree's names were joined by a slash.
// Nothing when it is none of those, or when two tensors would have one name.
std::optional<std::vector<std::string>> DottedNames(const Catalog& catalog, const Tree& tree,
                                                    size_t in_tree) {
  const std::vector<std::string> dotted = TreeNames(tree, in_tree, '.');
  const std::vector<std::string> slashed = TreeNames(tree, in_tree, '/');
  std::vector<std::string> names = catalog.Names();
  bool older = false;
  for (size_t i = 0; i < in_tree; ++i) {
    if (dotted[i] == slashed[i]) continue;
    if (names[i] == dotted[i]) return std::nullopt;
    older = older || names[i] == slashed[i];
    if (names[i] == slashed[i]) names[i] = dotted[i];
  }
  if (!older) return std::nullopt;
  // Other ranks' tensors are not in this tree; their names were made in the same way.
  for (size_t i = in_tree; i < names.size(); ++i) {
    if (names[i].starts_with(kTreeTensor)) continue;
    std::replace(names[i].begin(), names[i].end(), '/', '.');
  }
  const std::set<std::string_view> different(names.begin(), names.end());
  if (different.size() != names.size()) return std::nullopt;
  return names;
}

void Rename(Catalog& catalog, const Tree& tree, size_t in_tree) {
  std::optional<std::vector<std::string>> names = DottedNames(catalog, tree, in_tree);
  if (!names.has_value()) return;
  for (size_t i = 0; i < names->size(); ++i) catalog.tensors[i].name = std::move((*names)[i]);
}

}  // namespace

// Names of files come from an index or a pickle. A path in them could name any file of the machine.
Status CheckFileName(std::string_view name) {
  if (name.empty() || name.size() > 255 || name == "." || name == ".." ||
      name.find('/') != name.npos || name.find('\0') != name.npos) {
    return DataLoss("'" + Printable(name) + "' is not the name of a file in the checkpoint");
  }
  return {};
}

Result<SafetensorsHeader> ReadSafetensors(io::FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, files.Open(path));
  std::vector<std::byte> bytes(8);
  if (file->bytes() < bytes.size()) return DataLoss(path + ": too short for a header");
  RETURN_IF_ERROR(file->Read(0, bytes));
  const Result<uint64_t> length = SafetensorsHeaderBytes(bytes, file->bytes());
  if (!length.ok()) return length.status().WithContext(path);
  bytes.resize(*length);
  RETURN_IF_ERROR(file->Read(0, bytes));
  Result<SafetensorsHeader> header = ParseSafetensorsHeader(bytes, file->bytes());
  if (!header.ok()) return header.status().WithContext(path);
  return header;
}

void AddWholeTensors(const SafetensorsHeader& header, const std::string& path, Catalog& catalog) {
  const auto file = static_cast<uint32_t>(catalog.files.size());
  uint64_t end = 0;
  for (size_t i = 0; i < header.plan.size(); ++i) {
    const auto tensor = static_cast<uint32_t>(catalog.tensors.size());
    catalog.tensors.push_back(header.plan.tensors()[i]);
    catalog.shards.push_back(
        {tensor, Box::Whole(header.plan.tensors()[i].shape), file, header.offsets[i]});
    end = header.offsets[i] + header.plan.bytes(i);
  }
  catalog.files.push_back({path, end, {}});
}

// A tree that cannot be parsed stays what it was, a metadata entry or a tensor: a foreign
// checkpoint may use the same name for something else.
Status TakeTree(io::FileSystem& files, Catalog& catalog) {
  const auto named = catalog.metadata.find(std::string(kTreeMetadata));
  if (named != catalog.metadata.end()) {
    Result<Tree> tree = ParseTree(named->second, catalog.tensors.size());
    if (tree.ok()) {
      catalog.tree = std::move(tree).value();
      catalog.tree_text = std::move(named->second);
      catalog.metadata.erase(named);
      Rename(catalog, *catalog.tree, catalog.tensors.size());
    }
    return {};
  }
  ASSIGN_OR_RETURN(std::optional<TreeTensor> read, ReadTreeTensor(files, catalog));
  if (!read.has_value() || !read->tree.has_value()) return {};
  Rename(catalog, *read->tree, read->index);
  catalog.tree = std::move(read->tree);
  catalog.tree_text = std::move(read->text);
  const uint32_t at = read->index;
  catalog.tensors.erase(catalog.tensors.begin() + at);
  std::erase_if(catalog.shards, [&](const SavedShard& one) { return one.tensor == at; });
  for (SavedShard& one : catalog.shards) one.tensor -= one.tensor > at ? 1 : 0;
  return {};
}

Status UseDottedNames(io::FileSystem& files, Catalog& catalog) {
  ASSIGN_OR_RETURN(const std::optional<TreeTensor> read, ReadTreeTensor(files, catalog));
  if (read.has_value() && read->tree.has_value()) Rename(catalog, *read->tree, read->index);
  return {};
}

}  // namespace longhaul::checkpoint::internal
