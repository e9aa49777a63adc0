#include "checkpoint/formats/internal/write_parts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"
#include "checkpoint/formats/torch_file.h"

namespace longhaul::checkpoint::internal {
namespace {

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

void PickleInts(const std::vector<int64_t>& values, PickleWriter& writer) {
  writer.Mark();
  for (const int64_t value : values) writer.Int(value);
  writer.Tuple();
}

// PyTorch gives a dimension of extent 0 the stride of one with extent 1.
std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t dim = shape.size(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= std::max<int64_t>(shape[dim], 1);
  }
  return strides;
}

constexpr auto kMaxSigned = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

void PickleValueOf(const Tree& value, PickleWriter& writer) {
  if (value.is_null()) {
    writer.None();
  } else if (value.is_boolean()) {
    writer.Bool(value.get<bool>());
  } else if (value.is_number_float()) {
    writer.Float(value.get<double>());
  } else if (value.is_number_unsigned() && value.get<uint64_t>() > kMaxSigned) {
    writer.Long(std::to_string(value.get<uint64_t>()));
  } else if (value.is_number()) {
    writer.Int(value.get<int64_t>());
  } else {
    writer.Text(value.get<std::string>());
  }
}

}  // namespace

Status TensorStream::Each(uint32_t tensor,
                          const std::function<Status(std::span<const std::byte>)>& take) {
  const uint64_t bytes = catalog_.TensorBytes(tensor);
  const uint64_t element = DtypeBytes(catalog_.tensors[tensor].dtype).value_or(1);
  for (uint64_t at = 0; at < bytes; at += buffer_.size()) {
    buffer_.resize(std::min(kStreamBytes, bytes - at));
    RETURN_IF_ERROR(reader_.ReadRange(tensor, static_cast<int64_t>(at / element), buffer_));
    RETURN_IF_ERROR(take(buffer_));
    done_ += buffer_.size();
    if (options_.progress && !options_.progress(done_, total_)) {
      return CancelledError("stopped: nothing was written");
    }
  }
  return {};
}

// The call that torch.save writes for a tensor: a rebuild function with storage, offset, size,
// strides, requires_grad and hooks.
void PickleTensor(const TensorInfo& tensor, const std::string& key, PickleWriter& writer) {
  const std::string_view storage = StorageOfDtype(tensor.dtype);
  const bool typed = !storage.empty();
  const auto elements = Box::Whole(tensor.shape).elements();
  writer.Global("torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  writer.Mark();
  writer.Mark();
  writer.Text("storage");
  writer.Global(typed ? "torch" : "torch.storage", typed ? storage : "UntypedStorage");
  writer.Text(key);
  writer.Text("cpu");
  writer.Int(typed ? elements
                   : elements * static_cast<int64_t>(DtypeBytes(tensor.dtype).value_or(1)));
  writer.Tuple();
  writer.PersistentId();
  writer.Int(0);
  PickleInts(tensor.shape, writer);
  PickleInts(RowMajorStrides(tensor.shape), writer);
  writer.Bool(false);  // requires_grad
  writer.Global("collections", "OrderedDict");
  writer.EmptyTuple();
  writer.Reduce();  // hooks
  if (!typed) writer.Global("torch", TorchOfDtype(tensor.dtype));
  writer.Tuple();
  writer.Reduce();
}

void PickleTree(const Tree& node, const std::function<void(uint32_t)>& tensor,
                PickleWriter& writer) {
  const auto [kind, content] = *node.items().begin();
  if (kind == "t") {
    tensor(content.get<uint32_t>());
  } else if (kind == "v") {
    PickleValueOf(content, writer);
  } else if (kind == "i") {
    writer.Long(content.get<std::string>());
  } else if (kind == "f") {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    writer.Float(content == "nan" ? std::nan("") : content == "inf" ? kInfinity : -kInfinity);
  } else if (kind == "d") {
    writer.EmptyDict();
    writer.Mark();
    for (const Tree& entry : content) {
      PickleValueOf(entry[0], writer);
      PickleTree(entry[1], tensor, writer);
    }
    writer.SetItems();
  } else {
    const bool list = kind == "l";
    if (list) writer.EmptyList();
    writer.Mark();
    for (const Tree& item : content) PickleTree(item, tensor, writer);
    if (list) {
      writer.Appends();
    } else {
      writer.Tuple();
    }
  }
}

Status Finish(io::PatchableFile& file) {
  RETURN_IF_ERROR(file.Sync());
  return file.Close();
}

Partial::Partial(io::FileSystem& files, std::string path, bool folder)
    : files_(&files), path_(std::move(path)), partial_(path_ + ".partial"), folder_(folder) {}

Partial::Partial(Partial&& other) noexcept
    : files_(std::exchange(other.files_, nullptr)),
      path_(std::move(other.path_)),
      partial_(std::move(other.partial_)),
      folder_(other.folder_) {}

Partial::~Partial() {
  if (files_ != nullptr) Remove();
}

// An existing result is never overwritten. What is written becomes visible under its name by one
// rename (Keep), and a run that is killed leaves only the .partial.
Result<Partial> Partial::Begin(io::FileSystem& files, std::string path, bool folder) {
  if (files.Size(path).ok() || files.List(path).ok()) {
    return AlreadyExists(path + " is there already: remove it or name another");
  }
  Partial partial(files, std::move(path), folder);
  partial.Remove();  // what a killed run left
  if (folder) RETURN_IF_ERROR(files.MakeDirectories(partial.partial_));
  return partial;
}

void Partial::Remove() {
  // Best effort: what is left is recognised by its name.
  if (folder_) {
    const auto names = files_->List(partial_);
    if (!names.ok()) return;
    for (const std::string& name : *names) (void)files_->Remove(partial_ + "/" + name);
    (void)files_->RemoveDirectory(partial_);
  } else {
    (void)files_->Remove(partial_);
  }
}

// The names within the folder are durable before the folder gets its final name, and that name is
// durable when this returns. The files must have been finished before. After the rename the
// destructor must not remove anything.
Status Partial::Keep() {
  if (folder_) RETURN_IF_ERROR(files_->SyncDirectory(partial_));
  RETURN_IF_ERROR(files_->Rename(partial_, path_));
  const std::string parent = ParentOf(path_);
  io::FileSystem& files = *files_;
  files_ = nullptr;
  return files.SyncDirectory(parent);
}

}  // namespace longhaul::checkpoint::internal
