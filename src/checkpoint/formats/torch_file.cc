#include "checkpoint/formats/torch_file.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "checkpoint/formats/internal/torch_pickle.h"
#include "checkpoint/formats/zip.h"

namespace longhaul::checkpoint {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t kMaxTorchValues = 20'000'000;
constexpr size_t kMaxNodes = 20'000'000;
constexpr int64_t kMaxElements = int64_t{1} << 46;
constexpr size_t kVerifyBytes = 4 << 20;

struct DtypeNames {
  std::string_view dtype;
  std::string_view torch;
  std::string_view storage;
};
// Dtypes without a storage class of their own are saved in an untyped storage.
constexpr DtypeNames kDtypes[] = {
    {"F32", "float32", "FloatStorage"},
    {"F16", "float16", "HalfStorage"},
    {"BF16", "bfloat16", "BFloat16Storage"},
    {"F64", "float64", "DoubleStorage"},
    {"I64", "int64", "LongStorage"},
    {"I32", "int32", "IntStorage"},
    {"I16", "int16", "ShortStorage"},
    {"I8", "int8", "CharStorage"},
    {"U8", "uint8", "ByteStorage"},
    {"BOOL", "bool", "BoolStorage"},
    {"U16", "uint16", ""},
    {"U32", "uint32", ""},
    {"U64", "uint64", ""},
    {"F8_E4M3", "float8_e4m3fn", ""},
    {"F8_E5M2", "float8_e5m2", ""},
};

constexpr std::string_view kUntyped = "torch.storage.UntypedStorage";
constexpr std::string_view kRebuildV2 = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kRebuildV3 = "torch._utils._rebuild_tensor_v3";
constexpr std::string_view kParameter = "torch._utils._rebuild_parameter";

// Names that a pickle may mention. None of them is ever called: the pickle is read as data, so a
// checkpoint cannot run code.
constexpr PickleGlobal kTorchFileGlobals[] = {
    {"collections.OrderedDict", true},
    {kRebuildV2},
    {kRebuildV3},
    {kParameter},
    {kUntyped},
    {"torch.Size"},
    {"torch.device"},
    {"torch.FloatStorage"},
    {"torch.HalfStorage"},
    {"torch.BFloat16Storage"},
    {"torch.DoubleStorage"},
    {"torch.LongStorage"},
    {"torch.IntStorage"},
    {"torch.ShortStorage"},
    {"torch.CharStorage"},
    {"torch.ByteStorage"},
    {"torch.BoolStorage"},
};
constexpr auto kTorchGlobals = internal::WithDtypes(kTorchFileGlobals);

std::string_view AfterDot(std::string_view name) { return name.substr(name.rfind('.') + 1); }

struct Storage {
  std::string_view dtype;  // empty: untyped
  const ZipEntry* entry = nullptr;
};

// Turns the values of a pickle into tensors and a tree.
class TreeBuilder {
 public:
  TreeBuilder(const Pickle& pickle, const std::map<std::string, const ZipEntry*>& storages)
      : pickle_(pickle), storages_(storages) {}

  Result<TorchFile> Build() {
    if (!CountNodes(pickle_.root(), 0)) {
      return ResourceExhausted("more than " + std::to_string(kMaxNodes) +
                               " values, or nested deeper than 64");
    }
    Result<Tree> tree = Convert(pickle_.root(), "", 0);
    if (!tree.ok()) return tree.status();
    out_.tree = std::move(tree).value();
    return std::move(out_);
  }

 private:
  static Status Refuse(const std::string& place, const std::string& what) {
    return InvalidArgument((place.empty() ? "the object" : Printable(place)) + ": " + what);
  }

  // Counts before anything is built: values may be shared, so that a small pickle is a huge tree.
  bool CountNodes(const PickleValue& value, int depth) {
    if (depth > kMaxTreeDepth || ++nodes_ > kMaxNodes) return false;
    return std::all_of(value.items.begin(), value.items.end(),
                       [&](uint32_t item) { return CountNodes(pickle_[item], depth + 1); });
  }

  Result<Tree> Convert(const PickleValue& value, const std::string& place, int depth) {
    switch (value.kind) {
      case Kind::kNone:
        return Tree{{"v", nullptr}};
      case Kind::kBool:
        return Tree{{"v", value.integer != 0}};
      case Kind::kInt:
        return Tree{{"v", value.integer}};
      case Kind::kFloat:
        return Number(value.real);
      case Kind::kText:
        if (!IsUtf8(value.text)) return Refuse(place, "a text that is not UTF-8");
        return Tree{{"v", std::string(value.text)}};
      case Kind::kList:
      case Kind::kTuple:
        return ConvertList(value, place, depth);
      case Kind::kDict:
        return ConvertDict(value, place, depth);
      case Kind::kObject:
        return ConvertObject(value, place, depth);
      case Kind::kGlobal:
        return Tree{{"v", std::string(value.text)}};  // a dtype: its name
      case Kind::kBytes:
        return Refuse(place, "bytes can't be taken over");
      case Kind::kPersistent:
        return Refuse(place, "a storage without a tensor");
    }
    return Refuse(place, "an unknown value");
  }

  static Tree Number(double real) {
    if (real != real) return Tree{{"f", "nan"}};
    if (real - real != 0) return Tree{{"f", real > 0 ? "inf" : "-inf"}};
    return Tree{{"v", real}};
  }

  static std::string Under(const std::string& place, const std::string& name) {
    return place.empty() ? name : place + "." + name;
  }

  Result<Tree> ConvertList(const PickleValue& value, const std::string& place, int depth) {
    Tree items = Tree::array();
    for (size_t i = 0; i < value.items.size(); ++i) {
      ASSIGN_OR_RETURN(
          Tree item, Convert(pickle_[value.items[i]], Under(place, std::to_string(i)), depth + 1));
      items.push_back(std::move(item));
    }
    return Tree{{value.kind == Kind::kList ? "l" : "u", std::move(items)}};
  }

  Result<Tree> ConvertDict(const PickleValue& value, const std::string& place, int depth) {
    Tree entries = Tree::array();
    for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
      const PickleValue& key = pickle_[value.items[i]];
      Tree name;
      if (key.kind == Kind::kText && IsUtf8(key.text)) {
        name = std::string(key.text);
      } else if (key.kind == Kind::kInt) {
        name = key.integer;
      } else {
        return Refuse(place, "a key that is neither a text nor an integer");
      }
      const std::string text = name.is_string() ? name.get<std::string>() : name.dump();
      ASSIGN_OR_RETURN(Tree item,
                       Convert(pickle_[value.items[i + 1]], Under(place, text), depth + 1));
      entries.push_back(Tree::array({std::move(name), std::move(item)}));
    }
    return Tree{{"d", std::move(entries)}};
  }

  // Objects that only wrap a tensor or a tuple are replaced by their content. Others have a meaning
  // that would be lost, so they are refused.
  Result<Tree> ConvertObject(const PickleValue& value, const std::string& place, int depth) {
    const std::string_view name = pickle_.NameOf(value);
    const PickleValue& arguments = pickle_.ArgumentsOf(value);
    if (name == kRebuildV2 || name == kRebuildV3) return AddTensor(value, place);
    if (name == kParameter && !arguments.items.empty()) {
      return Convert(pickle_[arguments.items[0]], place, depth + 1);
    }
    if (name == "torch.Size" && arguments.items.size() == 1) {
      return Convert(pickle_[arguments.items[0]], place, depth + 1);
    }
    if (name == "torch.device" && !arguments.items.empty()) {
      return Convert(pickle_[arguments.items[0]], place, depth + 1);
    }
    return Refuse(place, "an object of " + std::string(name) + " can't be taken over");
  }

  // The persistent id of torch.save: ("storage", class, key, location, elements). Only class and
  // key are used; the archive knows the size.
  Result<Storage> StorageOf(const PickleValue& id, const std::string& place) {
    if (id.kind != Kind::kPersistent) return Refuse(place, "a tensor without a storage");
    const PickleValue& tuple = pickle_[id.items[0]];
    if (tuple.kind != Kind::kTuple || tuple.items.size() < 5 ||
        pickle_[tuple.items[0]].text != "storage") {
      return Refuse(place, "a storage's id is none");
    }
    const PickleValue& type = pickle_[tuple.items[1]];
    const PickleValue& key = pickle_[tuple.items[2]];
    if (type.kind != Kind::kGlobal || key.kind != Kind::kText) {
      return Refuse(place, "a storage's id is none");
    }
    Storage storage;
    const auto found = storages_.find(std::string(key.text));
    if (found == storages_.end()) {
      return DataLoss(Printable(place) + ": storage " + Printable(key.text) +
                      " is not in the archive");
    }
    storage.entry = found->second;
    for (const DtypeNames& names : kDtypes) {
      if (!names.storage.empty() && names.storage == AfterDot(type.text)) {
        storage.dtype = names.dtype;
      }
    }
    if (storage.dtype.empty() && type.text != kUntyped) {
      return Refuse(place, "a storage of " + std::string(type.text));
    }
    return storage;
  }

  Result<std::vector<int64_t>> Numbers(const PickleValue& value, const std::string& place) {
    auto numbers = internal::SizeOf(pickle_, value);
    if (!numbers.has_value()) return Refuse(place, "a size or stride that can't be");
    return *std::move(numbers);
  }

  Result<Tree> AddTensor(const PickleValue& value, const std::string& place) {
    const auto& items = pickle_.ArgumentsOf(value).items;
    // Version 2 takes the dtype from the storage's class. Version 3 names it as the seventh
    // argument.
    const bool third = pickle_.NameOf(value) == kRebuildV3;
    if (items.size() < (third ? 7u : 4u)) return Refuse(place, "a tensor lacks its parts");
    ASSIGN_OR_RETURN(const Storage storage, StorageOf(pickle_[items[0]], place));
    StridedTensor tensor;
    tensor.info.name = place.empty() ? "tensor" : place;
    tensor.info.dtype = storage.dtype;
    if (third) {
      const PickleValue& dtype = pickle_[items[6]];
      tensor.info.dtype = dtype.kind == Kind::kGlobal ? DtypeOfTorch(dtype.text) : "";
    }
    if (tensor.info.dtype.empty()) return Refuse(place, "a tensor of unknown dtype");
    ASSIGN_OR_RETURN(tensor.info.shape, Numbers(pickle_[items[2]], place));
    ASSIGN_OR_RETURN(tensor.strides, Numbers(pickle_[items[3]], place));
    const PickleValue& first = pickle_[items[1]];
    if (tensor.strides.size() != tensor.info.shape.size() || first.kind != Kind::kInt ||
        first.integer < 0 || first.integer > kMaxElements) {
      return Refuse(place, "a tensor whose parts don't fit");
    }
    const auto checked = StatePlan::Create({tensor.info});
    if (!checked.ok()) return Refuse(place, checked.status().message());
    ASSIGN_OR_RETURN(tensor.offset, PlaceInStorage(tensor, first.integer, *storage.entry));
    out_.tensors.push_back(std::move(tensor));
    return Tree{{"t", out_.tensors.size() - 1}};
  }

  // Where the first element lies. Refuses a tensor that reaches out of its storage.
  static Result<uint64_t> PlaceInStorage(const StridedTensor& tensor, int64_t first,
                                         const ZipEntry& entry) {
    const uint64_t element = DtypeBytes(tensor.info.dtype).value_or(1);
    const uint64_t begin = static_cast<uint64_t>(first) * element;
    // Strides from a file can address any place, so the last element is compared with the end of
    // the storage. A tensor without elements is in no place.
    const uint64_t span = SpanBytes(tensor);
    if (span > 0 && (begin > entry.bytes || span > entry.bytes - begin)) {
      return DataLoss(Printable(tensor.info.name) + " reaches out of its storage " +
                      Printable(entry.name) + " of " + std::to_string(entry.bytes) + " bytes");
    }
    return span > 0 ? entry.offset + begin : entry.offset;
  }

  const Pickle& pickle_;
  const std::map<std::string, const ZipEntry*>& storages_;
  TorchFile out_;
  size_t nodes_ = 0;
};

Result<std::string> ReadEntry(const io::ReadableFile& file, const ZipEntry& entry, uint64_t limit) {
  if (entry.bytes > limit) {
    return ResourceExhausted("entry " + Printable(entry.name) + " is longer than the limit of " +
                             std::to_string(limit) + " bytes");
  }
  std::string content(entry.bytes, '\0');
  RETURN_IF_ERROR(file.Read(entry.offset, std::as_writable_bytes(std::span(content))));
  if (Crc32(std::as_bytes(std::span(content))) != entry.crc) {
    return DataLoss("the CRC-32 of " + Printable(entry.name) + " at byte " +
                    std::to_string(entry.offset) + " differs");
  }
  return content;
}

}  // namespace

std::string_view DtypeOfTorch(std::string_view torch_name) {
  for (const DtypeNames& names : kDtypes) {
    if (torch_name.starts_with("torch.") && torch_name.substr(6) == names.torch) return names.dtype;
  }
  return "";
}

std::string_view TorchOfDtype(std::string_view dtype) {
  for (const DtypeNames& names : kDtypes) {
    if (names.dtype == dtype) return names.torch;
  }
  return "";
}

std::string_view StorageOfDtype(std::string_view dtype) {
  for (const DtypeNames& names : kDtypes) {
    if (names.dtype == dtype) return names.storage;
  }
  return "";
}

// The stride of a dimension of extent 1 is never used, so any value is accepted there.
bool IsContiguous(const StridedTensor& tensor) {
  if (SpanBytes(tensor) == 0) return true;
  int64_t expected = 1;
  for (size_t dim = tensor.info.shape.size(); dim-- > 0;) {
    if (tensor.info.shape[dim] != 1 && tensor.strides[dim] != expected) return false;
    expected *= tensor.info.shape[dim];
  }
  return true;
}

// In 128 bits: extents and strides come from a file, and their product may exceed 64 bits. The
// result is cut to a size that no storage has.
uint64_t SpanBytes(const StridedTensor& tensor) {
  unsigned __int128 last = 0;  // the last element's index
  for (size_t dim = 0; dim < tensor.info.shape.size(); ++dim) {
    if (tensor.info.shape[dim] == 0) return 0;
    last += static_cast<unsigned __int128>(tensor.info.shape[dim] - 1) *
            static_cast<unsigned __int128>(tensor.strides[dim]);
  }
  const unsigned __int128 bytes = (last + 1) * DtypeBytes(tensor.info.dtype).value_or(1);
  return bytes > kMaxStateBytes * 2 ? kMaxStateBytes * 2 : static_cast<uint64_t>(bytes);
}

Result<TorchFile> ReadTorchFile(const io::ReadableFile& file, uint64_t begin, uint64_t bytes) {
  ASSIGN_OR_RETURN(const std::vector<ZipEntry> entries, ReadZip(file, begin, bytes));
  const auto pickle_entry = std::find_if(entries.begin(), entries.end(), [](const ZipEntry& entry) {
    return entry.name.ends_with("/data.pkl");
  });
  if (pickle_entry == entries.end()) {
    const bool script = std::any_of(entries.begin(), entries.end(), [](const ZipEntry& entry) {
      return entry.name.ends_with("/constants.pkl");
    });
    return InvalidArgument(script ? "a TorchScript archive, not a checkpoint"
                                  : "a ZIP archive, but torch.save did not write it: no data.pkl");
  }
  // The folder in the archive has the name of the file that was saved, so it differs between files.
  const std::string root = pickle_entry->name.substr(0, pickle_entry->name.size() - 8);
  std::map<std::string, const ZipEntry*> storages;
  for (const ZipEntry& entry : entries) {
    if (entry.name.starts_with(root + "data/")) {
      storages[entry.name.substr(root.size() + 5)] = &entry;
    } else if (entry.name == root + "byteorder") {
      ASSIGN_OR_RETURN(const std::string order, ReadEntry(file, entry, 64));
      if (order != "little") return InvalidArgument("byte order " + Printable(order));
    }
  }
  ASSIGN_OR_RETURN(const std::string text, ReadEntry(file, *pickle_entry, kMaxTorchPickle));
  Result<Pickle> pickle = Pickle::Parse(text, {kMaxTorchValues, kTorchGlobals});
  if (!pickle.ok()) return pickle.status().WithContext(Printable(pickle_entry->name));
  return TreeBuilder(*pickle, storages).Build();
}

Status VerifyTorchFile(const io::ReadableFile& file, uint64_t begin, uint64_t bytes) {
  ASSIGN_OR_RETURN(const std::vector<ZipEntry> entries, ReadZip(file, begin, bytes));
  std::vector<std::byte> buffer;
  for (const ZipEntry& entry : entries) {
    uint32_t crc = 0;
    for (uint64_t at = 0; at < entry.bytes; at += buffer.size()) {
      buffer.resize(std::min<uint64_t>(kVerifyBytes, entry.bytes - at));
      RETURN_IF_ERROR(file.Read(entry.offset + at, buffer));
      crc = Crc32(buffer, crc);
    }
    if (crc != entry.crc) {
      return DataLoss("the CRC-32 of " + Printable(entry.name) + " at byte " +
                      std::to_string(entry.offset) + " differs");
    }
  }
  return {};
}

}  // namespace longhaul::checkpoint
