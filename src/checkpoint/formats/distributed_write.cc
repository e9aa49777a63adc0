// A folder of torch.distributed.checkpoint, as one rank writes it: every tensor one chunk.
#include <utility>

#include "base/pickle/pickle_writer.h"
#include "base/text.h"
#include "checkpoint/formats/internal/write_parts.h"
#include "checkpoint/formats/torch_file.h"
#include "checkpoint/formats/zip.h"
#include "io/files/file.h"

namespace longhaul::checkpoint::internal {
namespace {

constexpr const char* kMetadataModule = "torch.distributed.checkpoint.metadata";
constexpr const char* kFilesModule = "torch.distributed.checkpoint.filesystem";

struct Key {
  std::string text;
  int64_t index = -1;  // of a list: the text is empty
};

// A tensor or a value under its flattened name.
struct Item {
  std::string name;
  std::vector<Key> path;
  const Tree* node = nullptr;
  std::string file;
  uint64_t offset = 0;
  uint64_t bytes = 0;

  bool is_tensor() const { return node->contains("t"); }
  uint32_t tensor() const { return (*node)["t"].get<uint32_t>(); }
};

bool HoldsTensors(const Tree& node) {
  const auto [kind, content] = *node.items().begin();
  if (kind == "t") return true;
  if (kind == "d") {
    for (const Tree& entry : content) {
      if (HoldsTensors(entry[1])) return true;
    }
  } else if (kind == "l" || kind == "u") {
    for (const Tree& item : content) {
      if (HoldsTensors(item)) return true;
    }
  }
  return false;
}

// The leaves as torch's flatten_state_dict finds them: dictionaries are gone through, lists where
// they hold tensors; everything else is a value.
void Flatten(const Tree& node, const std::string& name, const std::vector<Key>& path,
             std::vector<Item>& items) {
  const auto [kind, content] = *node.items().begin();
  const bool list = (kind == "l" || kind == "u") && HoldsTensors(node);
  if (!list && (kind != "d" || content.empty())) {
    items.push_back({name, path, &node, "", 0, 0});
    return;
  }
  int64_t index = 0;
  for (const Tree& entry : content) {
    Key key;
    if (list) {
      key.index = index++;
    } else {
      key.text = entry[0].is_string() ? entry[0].get<std::string>() : entry[0].dump();
    }
    std::vector<Key> below = path;
    below.push_back(key);
    const std::string text = list ? std::to_string(key.index) : key.text;
    Flatten(list ? entry : entry[1], name.empty() ? text : name + "." + text, below, items);
  }
}

// Writes the pickle of the classes in torch.distributed.checkpoint.metadata.
class MetadataPickler {
 public:
  explicit MetadataPickler(const Catalog& catalog) : catalog_(catalog) {}

  std::string Write(const std::vector<Item>& items) && {
    Begin(kMetadataModule, "Metadata");
    pickle_.Text("state_dict_metadata");
    pickle_.EmptyDict();
    pickle_.Mark();
    for (const Item& item : items) {
      pickle_.Text(item.name);
      Description(item);
    }
    pickle_.SetItems();
    pickle_.Text("planner_data");
    pickle_.EmptyDict();
    pickle_.Mark();
    for (const Item& item : items) {
      pickle_.Text(item.name);
      pickle_.Mark();
      for (const Key& key : item.path) {
        key.index >= 0 ? pickle_.Int(key.index) : pickle_.Text(key.text);
      }
      pickle_.Tuple();
    }
    pickle_.SetItems();
    pickle_.Text("storage_data");
    pickle_.EmptyDict();
    pickle_.Mark();
    for (const Item& item : items) Place(item);
    pickle_.SetItems();
    End();
    return std::move(pickle_).Take();
  }

 private:
  // An object of a dataclass; its fields follow as keys and values.
  void Begin(const char* module, const char* name) {
    pickle_.Global(module, name);
    pickle_.EmptyTuple();
    pickle_.NewObject();
    pickle_.EmptyDict();
    pickle_.Mark();
  }
  void End() {
    pickle_.SetItems();
    pickle_.Build();
  }

  void Size(const std::vector<int64_t>& numbers) {
    pickle_.Global("torch", "Size");
    pickle_.Mark();
    pickle_.Mark();
    for (const int64_t number : numbers) pickle_.Int(number);
    pickle_.Tuple();
    pickle_.Tuple();
    pickle_.Reduce();
  }

  // Dtype, strided, no gradient, the default memory format, not pinned: its __setstate__ takes
  // five.
  void Properties(const TensorInfo& tensor) {
    pickle_.Global(kMetadataModule, "TensorProperties");
    pickle_.EmptyTuple();
    pickle_.NewObject();
    pickle_.Mark();
    pickle_.Global("torch", TorchOfDtype(tensor.dtype));
    pickle_.Global("torch.serialization", "_get_layout");
    pickle_.Mark();
    pickle_.Text("torch.strided");
    pickle_.Tuple();
    pickle_.Reduce();
    pickle_.Bool(false);
    pickle_.Global(kMetadataModule, "_MEM_FORMAT_ENCODING");
    pickle_.Mark();
    pickle_.Int(0);
    pickle_.Tuple();
    pickle_.Reduce();
    pickle_.Bool(false);
    pickle_.Tuple();
    pickle_.Build();
  }

  void Description(const Item& item) {
    if (!item.is_tensor()) {
      pickle_.Global(kMetadataModule, "BytesStorageMetadata");
      pickle_.EmptyTuple();
      pickle_.NewObject();
      return;
    }
    const TensorInfo& tensor = catalog_.tensors[item.tensor()];
    Begin(kMetadataModule, "TensorStorageMetadata");
    pickle_.Text("properties");
    Properties(tensor);
    pickle_.Text("size");
    Size(tensor.shape);
    pickle_.Text("chunks");
    pickle_.EmptyList();
    pickle_.Mark();
    Begin(kMetadataModule, "ChunkStorageMetadata");
    pickle_.Text("offsets");
    Size(std::vector<int64_t>(tensor.shape.size(), 0));
    pickle_.Text("sizes");
    Size(tensor.shape);
    End();
    pickle_.Appends();
    End();
  }

  void Place(const Item& item) {
    Begin(kMetadataModule, "MetadataIndex");
    pickle_.Text("fqn");
    pickle_.Text(item.name);
    pickle_.Text("offset");
    if (item.is_tensor()) {
      Size(std::vector<int64_t>(catalog_.tensors[item.tensor()].shape.size(), 0));
    } else {
      pickle_.None();
    }
    pickle_.Text("index");
    item.is_tensor() ? pickle_.Int(0) : pickle_.None();
    End();
    Begin(kFilesModule, "_StorageInfo");
    pickle_.Text("relative_path");
    pickle_.Text(item.file);
    pickle_.Text("offset");
    pickle_.Int(static_cast<int64_t>(item.offset));
    pickle_.Text("length");
    pickle_.Int(static_cast<int64_t>(item.bytes));
    End();
  }

  const Catalog& catalog_;
  PickleWriter pickle_;
};

// One item as an archive of its own at the file's end.
Status WriteItem(const Catalog& catalog, TensorStream& stream, const Item& item,
                 io::PatchableFile& file) {
  PickleWriter pickle;
  if (item.is_tensor()) {
    PickleTensor(catalog.tensors[item.tensor()], "0", pickle);
  } else {
    PickleTree(
        *item.node, [](uint32_t) {}, pickle);
  }
  ZipWriter zip(file);
  RETURN_IF_ERROR(zip.Add("archive/data.pkl", std::move(pickle).Take()));
  RETURN_IF_ERROR(zip.Add("archive/byteorder", "little"));
  if (item.is_tensor()) {
    RETURN_IF_ERROR(zip.Begin("archive/data/0", catalog.TensorBytes(item.tensor())));
    RETURN_IF_ERROR(stream.Each(
        item.tensor(), [&](std::span<const std::byte> bytes) { return zip.Append(bytes); }));
  }
  RETURN_IF_ERROR(zip.Add("archive/version", "3\n"));
  return zip.Finish();
}

}  // namespace

Status WriteDistributed(io::FileSystem& files, const Catalog& catalog, TensorStream& stream,
                        const std::string& path, const WriteOptions& options) {
  Tree tree = catalog.tree.has_value() ? *catalog.tree : FlatTree(catalog.Names());
  if (!tree.contains("d")) tree = Tree{{"d", Tree::array({Tree::array({"state", tree})})}};
  std::vector<Item> items;
  Flatten(tree, "", {}, items);
  size_t number = 0;
  // A file is closed after the item that reaches the limit, so each file has at least one item.
  for (size_t next = 0; next < items.size(); ++number) {
    const std::string name = "__0_" + std::to_string(number) + ".distcp";
    ASSIGN_OR_RETURN(io::PatchableFile file, io::PatchableFile::Create(path + "/" + name));
    do {
      Item& item = items[next];
      item.file = name;
      item.offset = file.bytes();
      RETURN_IF_ERROR(WriteItem(catalog, stream, item, file));
      item.bytes = file.bytes() - item.offset;
      ++next;
    } while (next < items.size() &&
             (options.max_shard_bytes == 0 || file.bytes() < options.max_shard_bytes));
    RETURN_IF_ERROR(Finish(file));
  }
  // Last: a folder without .metadata is no checkpoint, so an interrupted write cannot be read as a
  // whole one.
  return io::WriteTextAtomically(files, path + "/.metadata", MetadataPickler(catalog).Write(items));
}

}  // namespace longhaul::checkpoint::internal
