#include "checkpoint/formats/internal/distributed_metadata.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/pickle/pickle.h"
#include "base/text.h"
#include "base/utf8.h"
#include "checkpoint/formats/internal/torch_pickle.h"
#include "checkpoint/formats/torch_file.h"

namespace longhaul::checkpoint {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t kMaxPickleValues = 100'000'000;

constexpr PickleGlobal kOwnGlobals[] = {
    {"torch.distributed.checkpoint.metadata.Metadata"},
    {"torch.distributed.checkpoint.metadata.TensorStorageMetadata"},
    {"torch.distributed.checkpoint.metadata.BytesStorageMetadata"},
    {"torch.distributed.checkpoint.metadata.ChunkStorageMetadata"},
    {"torch.distributed.checkpoint.metadata.TensorProperties"},
    {"torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING"},
    {"torch.distributed.checkpoint.metadata.MetadataIndex"},
    {"torch.distributed.checkpoint.metadata.StorageMeta"},
    {"torch.distributed.checkpoint.filesystem._StorageInfo"},
    {"torch.distributed._shard.checkpoint.metadata.Metadata"},
    {"torch.distributed._shard.checkpoint.metadata.TensorStorageMetadata"},
    {"torch.distributed._shard.checkpoint.metadata.BytesStorageMetadata"},
    {"torch.distributed._shard.checkpoint.metadata.ChunkStorageMetadata"},
    {"torch.distributed._shard.checkpoint.metadata.MetadataIndex"},
    {"torch.distributed._shard.checkpoint.filesystem._StorageInfo"},
    {"torch.distributed._shard.sharded_tensor.metadata.TensorProperties"},
    {"torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING"},
    {"torch.serialization._get_layout"},
    {"torch.Size"},
    {"collections.OrderedDict", true},
    // How Python 3.11.2 (Debian 12) pickles an enum: getattr(class, "NAME"). As every name here it
    // is never called; what it would give isn't needed.
    {"builtins.getattr"},
    {"pathlib.PosixPath"},
    {"pathlib.WindowsPath"},
};

constexpr auto kDistributedGlobals = internal::WithDtypes(kOwnGlobals);

// A place in storage_data: the tensor's name and the chunk's offset; none for a value.
using StorageKey = std::pair<std::string, std::vector<int64_t>>;

// Storage and paths are read first, because each entry of the state refers to both by name.
class MetadataReader {
 public:
  explicit MetadataReader(const Pickle& pickle) : pickle_(pickle) {}

  Result<DistributedMetadata> Read() {
    const PickleValue& root = pickle_.root();
    if (!IsA(root, ".Metadata")) return InvalidArgument("it does not hold a Metadata");
    const PickleValue* state = Field(root, "state_dict_metadata");
    const PickleValue* storage = Field(root, "storage_data");
    if (state == nullptr || state->kind != Kind::kDict || storage == nullptr ||
        storage->kind != Kind::kDict) {
      return InvalidArgument("Metadata lacks state_dict_metadata or storage_data");
    }
    RETURN_IF_ERROR(ReadStorage(*storage));
    RETURN_IF_ERROR(ReadPaths(Field(root, "planner_data")));
    DistributedMetadata metadata;
    for (size_t i = 0; i + 1 < state->items.size(); i += 2) {
      const PickleValue& name = pickle_[state->items[i]];
      if (name.kind != Kind::kText || !IsUtf8(name.text)) return Bad("a name that is no text");
      ASSIGN_OR_RETURN(DistributedEntry entry,
                       ReadEntry(std::string(name.text), pickle_[state->items[i + 1]]));
      metadata.entries.push_back(std::move(entry));
    }
    return metadata;
  }

 private:
  static Status Bad(const std::string& what) { return DataLoss("bad metadata: " + what); }

  bool IsA(const PickleValue& value, std::string_view end) const {
    return value.kind == Kind::kObject && pickle_.NameOf(value).ends_with(end);
  }
  // A field of a dataclass: its state is a dictionary.
  const PickleValue* Field(const PickleValue& object, std::string_view name) const {
    const PickleValue* state = object.kind == Kind::kObject ? pickle_.StateOf(object) : nullptr;
    return state == nullptr ? nullptr : pickle_.Find(*state, name);
  }

  std::optional<std::vector<int64_t>> Size(const PickleValue* value) const {
    return value == nullptr ? std::nullopt : internal::SizeOf(pickle_, *value);
  }

  Status ReadStorage(const PickleValue& storage) {
    for (size_t i = 0; i + 1 < storage.items.size(); i += 2) {
      const PickleValue& index = pickle_[storage.items[i]];
      const PickleValue& info = pickle_[storage.items[i + 1]];
      const PickleValue* name = Field(index, "fqn");
      const PickleValue* path = Field(info, "relative_path");
      const PickleValue* offset = Field(info, "offset");
      const PickleValue* length = Field(info, "length");
      if (name == nullptr || name->kind != Kind::kText || path == nullptr ||
          path->kind != Kind::kText || offset == nullptr || offset->kind != Kind::kInt ||
          length == nullptr || length->kind != Kind::kInt || offset->integer < 0 ||
          length->integer < 0) {
        return Bad("an entry of storage_data");
      }
      const PickleValue* transforms = Field(info, "transform_descriptors");
      // The bytes in the file are not the tensor's then, so they must not be read as such.
      if (transforms != nullptr && transforms->kind != Kind::kNone && !transforms->items.empty()) {
        return InvalidArgument(Printable(name->text) +
                               " is stored through transforms (compressed), which are not read");
      }
      const PickleValue* at = Field(index, "offset");
      const bool whole = at == nullptr || at->kind == Kind::kNone;
      const auto offsets = whole ? std::vector<int64_t>{} : Size(at);
      if (!offsets.has_value()) return Bad("an offset of " + Printable(name->text));
      DistributedPart part;
      part.file = path->text;
      part.offset = static_cast<uint64_t>(offset->integer);
      part.bytes = static_cast<uint64_t>(length->integer);
      if (!storage_.emplace(StorageKey(name->text, *offsets), std::move(part)).second) {
        return Bad("two places for " + Printable(name->text));
      }
    }
    return {};
  }

  Status ReadPaths(const PickleValue* planner) {
    if (planner == nullptr || planner->kind != Kind::kDict) return {};
    for (size_t i = 0; i + 1 < planner->items.size(); i += 2) {
      const PickleValue& name = pickle_[planner->items[i]];
      const PickleValue& path = pickle_[planner->items[i + 1]];
      if (name.kind != Kind::kText || path.kind != Kind::kTuple || path.items.empty() ||
          path.items.size() >= 60) {
        return Bad("planner_data");
      }
      std::vector<PathKey>& keys = paths_[std::string(name.text)];
      keys.clear();
      for (const uint32_t item : path.items) {
        const PickleValue& key = pickle_[item];
        if (key.kind == Kind::kInt) {
          keys.push_back({"", key.integer, true});
        } else if (key.kind == Kind::kText && IsUtf8(key.text)) {
          keys.push_back({std::string(key.text), 0, false});
        } else {
          return Bad("a key in planner_data");
        }
      }
    }
    return {};
  }

  Result<DistributedEntry> ReadEntry(std::string name, const PickleValue& value) {
    DistributedEntry entry;
    const auto path = paths_.find(name);
    // Without planner_data the flattened name is the only key.
    if (path != paths_.end()) {
      entry.path = path->second;
    } else {
      entry.path = {{name, 0, false}};
    }
    entry.tensor.name = std::move(name);
    const std::string what = Printable(entry.tensor.name);
    if (IsA(value, ".BytesStorageMetadata")) {
      const auto found = storage_.find(StorageKey(entry.tensor.name, {}));
      if (found != storage_.end()) entry.parts.push_back(found->second);
      return entry;
    }
    if (!IsA(value, ".TensorStorageMetadata")) return Bad(what + " is neither tensor nor bytes");
    entry.is_tensor = true;
    ASSIGN_OR_RETURN(entry.tensor.dtype, ReadDtype(Field(value, "properties"), what));
    const auto shape = Size(Field(value, "size"));
    const PickleValue* chunks = Field(value, "chunks");
    if (!shape.has_value() || chunks == nullptr || chunks->kind != Kind::kList) {
      return Bad("the size or chunks of " + what);
    }
    entry.tensor.shape = *shape;
    for (const uint32_t item : chunks->items) {
      const auto offsets = Size(Field(pickle_[item], "offsets"));
      const auto sizes = Size(Field(pickle_[item], "sizes"));
      if (!offsets.has_value() || !sizes.has_value() || offsets->size() != shape->size() ||
          sizes->size() != shape->size()) {
        return Bad("a chunk of " + what);
      }
      const auto found = storage_.find(StorageKey(entry.tensor.name, *offsets));
      if (found == storage_.end()) return Bad("a chunk of " + what + " is nowhere");
      DistributedPart part = found->second;
      part.box = Box::At(*offsets, *sizes);
      entry.parts.push_back(std::move(part));
    }
    return entry;
  }

  // TensorProperties gives its state as a tuple that begins with the dtype; a dictionary in early
  // versions.
  Result<std::string> ReadDtype(const PickleValue* properties, const std::string& what) {
    const PickleValue* dtype = nullptr;
    if (properties != nullptr && properties->kind == Kind::kObject) {
      const PickleValue* state = pickle_.StateOf(*properties);
      if (state != nullptr && state->kind == Kind::kTuple && !state->items.empty()) {
        dtype = &pickle_[state->items[0]];
      } else {
        dtype = Field(*properties, "dtype");
      }
    }
    const std::string_view known =
        dtype != nullptr && dtype->kind == Kind::kGlobal ? DtypeOfTorch(dtype->text) : "";
    if (known.empty()) return Bad("the dtype of " + what);
    return std::string(known);
  }

  const Pickle& pickle_;
  std::map<StorageKey, DistributedPart> storage_;
  std::map<std::string, std::vector<PathKey>> paths_;
};

}  // namespace

Result<DistributedMetadata> ReadDistributedMetadata(std::string_view pickle) {
  ASSIGN_OR_RETURN(const Pickle parsed,
                   Pickle::Parse(pickle, {kMaxPickleValues, kDistributedGlobals}));
  return MetadataReader(parsed).Read();
}

}  // namespace longhaul::checkpoint
