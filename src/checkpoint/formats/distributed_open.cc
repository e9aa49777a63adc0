// A folder of torch.distributed.checkpoint: .metadata, a pickle of its classes, and __R_N.distcp
// files in which every chunk of a tensor, and every other value, is a whole torch.save archive.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/text.h"
#include "checkpoint/formats/internal/distributed_metadata.h"
#include "checkpoint/formats/internal/open_parts.h"
#include "checkpoint/formats/open_checkpoint.h"

namespace longhaul::checkpoint {
namespace {

constexpr uint64_t kMaxMetadataBytes = uint64_t{1} << 30;

class DistributedOpener {
 public:
  DistributedOpener(io::FileSystem& files, std::string path, DistributedMetadata metadata)
      : files_(files), metadata_(std::move(metadata)) {
    catalog_.format = Format::kDistributed;
    catalog_.path = std::move(path);
  }

  Result<Catalog> Open() {
    for (const DistributedEntry& entry : metadata_.entries) {
      if (entry.is_tensor) {
        RETURN_IF_ERROR(AddTensor(entry));
      } else {
        RETURN_IF_ERROR(AddValue(entry));
      }
    }
    catalog_.tree = Nest();
    RETURN_IF_ERROR(CheckCatalog(catalog_));
    return std::move(catalog_);
  }

 private:
  struct Leaf {
    const std::vector<PathKey>* path;
    Tree node;
  };

  struct Node {
    std::optional<Tree> leaf;
    std::vector<std::pair<PathKey, std::unique_ptr<Node>>> children;
    std::map<std::string, size_t> index;
  };

  // The file of a part, open. Parts lie in few files, one after the other.
  Result<const io::ReadableFile*> FileOf(const DistributedPart& part, uint32_t* index) {
    const auto found = file_index_.find(part.file);
    if (found == file_index_.end()) {
      RETURN_IF_ERROR(internal::CheckFileName(part.file));
      const std::string path = catalog_.path + "/" + part.file;
      ASSIGN_OR_RETURN(opened_, files_.Open(path));
      *index = static_cast<uint32_t>(catalog_.files.size());
      file_index_[part.file] = *index;
      catalog_.files.push_back({path, opened_->bytes(), {}});
      opened_index_ = *index;
    } else {
      *index = found->second;
      if (opened_index_ != *index) {
        ASSIGN_OR_RETURN(opened_, files_.Open(catalog_.files[*index].path));
        opened_index_ = *index;
      }
    }
    catalog_.files[*index].archives.push_back({part.offset, part.bytes});
    return opened_.get();
  }

  Result<TorchFile> ReadPart(const std::string& name, const DistributedPart& part,
                             const io::ReadableFile& file) {
    Result<TorchFile> torch = ReadTorchFile(file, part.offset, part.bytes);
    if (!torch.ok()) {
      return torch.status().WithContext(catalog_.path + "/" + part.file + ": " + Printable(name) +
                                        " at byte " + std::to_string(part.offset));
    }
    return torch;
  }

  // .metadata and the archive of each chunk describe the same tensor. Both are compared, so that an
  // archive of another checkpoint is noticed.
  Status AddTensor(const DistributedEntry& entry) {
    const auto index = static_cast<uint32_t>(catalog_.tensors.size());
    catalog_.tensors.push_back(entry.tensor);
    const auto known = StatePlan::Create({entry.tensor});
    if (!known.ok()) return DataLoss(known.status().message());
    for (const DistributedPart& part : entry.parts) {
      uint32_t file_index = 0;
      ASSIGN_OR_RETURN(const io::ReadableFile* file, FileOf(part, &file_index));
      ASSIGN_OR_RETURN(const TorchFile torch, ReadPart(entry.tensor.name, part, *file));
      const std::string what = "chunk " + ToString(part.box) + " of " +
                               Printable(entry.tensor.name) + " in " + part.file;
      if (torch.tensors.size() != 1 || !torch.tree.contains("t")) {
        return DataLoss(what + " is not one tensor");
      }
      if (torch.tensors[0].info.shape != part.box.shape() ||
          torch.tensors[0].info.dtype != entry.tensor.dtype) {
        return DataLoss(what + " has another shape or dtype than .metadata says");
      }
      RETURN_IF_ERROR(
          internal::AddStrided(*file, file_index, torch.tensors[0], index, part.box, catalog_));
    }
    leaves_.push_back({&entry.path, Tree{{"t", index}}});
    return {};
  }

  Status AddValue(const DistributedEntry& entry) {
    if (entry.parts.size() != 1) {
      return DataLoss("the value " + Printable(entry.tensor.name) + " is not in storage_data");
    }
    uint32_t file_index = 0;
    ASSIGN_OR_RETURN(const io::ReadableFile* file, FileOf(entry.parts[0], &file_index));
    ASSIGN_OR_RETURN(TorchFile torch, ReadPart(entry.tensor.name, entry.parts[0], *file));
    if (!torch.tensors.empty()) {
      return InvalidArgument("the value " + Printable(entry.tensor.name) +
                             " holds tensors of its own");
    }
    leaves_.push_back({&entry.path, std::move(torch.tree)});
    return {};
  }

  // The nesting that the paths tell; flat where they contradict each other.
  Tree Nest() {
    Node root;
    for (Leaf& leaf : leaves_) {
      Node* at = &root;
      for (const PathKey& key : *leaf.path) {
        if (at->leaf.has_value()) return Flat();
        at = Child(*at, key);
      }
      if (at->leaf.has_value() || !at->children.empty()) return Flat();
      at->leaf = std::move(leaf.node);
    }
    return TreeOf(root);
  }

  static Node* Child(Node& parent, const PathKey& key) {
    const std::string known = (key.is_index ? "i" + std::to_string(key.index) : "t" + key.name);
    const auto [found, added] = parent.index.try_emplace(known, parent.children.size());
    if (added) parent.children.emplace_back(key, std::make_unique<Node>());
    return parent.children[found->second].second.get();
  }

  // Children numbered from 0 on are a list, others a dictionary.
  // Every key is an index below the number of children, and no key occurs twice, so each place of a
  // list is filled.
  static Tree TreeOf(Node& node) {
    if (node.leaf.has_value()) return std::move(*node.leaf);
    std::vector<Tree> items(node.children.size());
    bool list = !items.empty();
    for (const auto& [key, child] : node.children) {
      list =
          list && key.is_index && key.index >= 0 && static_cast<uint64_t>(key.index) < items.size();
    }
    if (list) {
      for (auto& [key, child] : node.children) {
        items[static_cast<size_t>(key.index)] = TreeOf(*child);
      }
      return Tree{{"l", std::move(items)}};
    }
    Tree entries = Tree::array();
    for (auto& [key, child] : node.children) {
      Tree name = key.is_index ? Tree(key.index) : Tree(key.name);
      entries.push_back(Tree::array({std::move(name), TreeOf(*child)}));
    }
    return Tree{{"d", std::move(entries)}};
  }

  Tree Flat() const { return FlatTree(catalog_.Names()); }

  io::FileSystem& files_;
  const DistributedMetadata metadata_;
  Catalog catalog_;
  std::map<std::string, uint32_t> file_index_;
  std::unique_ptr<io::ReadableFile> opened_;
  uint32_t opened_index_ = 0;
  std::vector<Leaf> leaves_;
};

}  // namespace

Result<Catalog> OpenDistributed(io::FileSystem& files, const std::string& path) {
  const std::string metadata_path = path + "/.metadata";
  ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                   files.ReadAll(metadata_path, kMaxMetadataBytes));
  Result<DistributedMetadata> metadata =
      ReadDistributedMetadata({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!metadata.ok()) return metadata.status().WithContext(metadata_path);
  Result<Catalog> catalog = DistributedOpener(files, path, std::move(metadata).value()).Open();
  if (!catalog.ok()) return catalog.status().WithContext(path);
  return catalog;
}

}  // namespace longhaul::checkpoint
