#include "worker_api/c_edge.h"

#include <cstdio>
#include <string>
#include <utility>

namespace longhaul::worker_api {
namespace {

// Where tensor `what` lies in a global one.
Result<checkpoint::TensorPart> PartOf(const std::string& what, const longhaul_part& part,
                                      size_t dims) {
  if (dims > 0 && (part.shape == nullptr || part.offset == nullptr)) {
    return InvalidArgument(what + " is a part with a null pointer");
  }
  return checkpoint::TensorPart{
      part.of, {part.shape, part.shape + dims}, {part.offset, part.offset + dims}};
}

}  // namespace

int ReportError(const Status& status, longhaul_error* error) {
  if (error != nullptr) {
    error->code = static_cast<int32_t>(status.code());
    std::snprintf(error->message, sizeof(error->message), "%s", status.message().c_str());
  }
  return static_cast<int>(status.code());
}

Result<GivenTensors> TakeTensors(const longhaul_tensor* tensors, const longhaul_part* parts,
                                 size_t count) {
  if (count > checkpoint::kMaxTensors || (count > 0 && tensors == nullptr)) {
    return InvalidArgument("bad number of tensors");
  }
  std::vector<checkpoint::TensorInfo> infos;
  GivenTensors given;
  for (size_t i = 0; i < count; ++i) {
    const longhaul_tensor& tensor = tensors[i];
    const std::string what = "tensor " + std::to_string(i);
    if (tensor.name == nullptr || tensor.dtype == nullptr ||
        (tensor.shape == nullptr && tensor.dims > 0) ||
        (tensor.data == nullptr && tensor.bytes > 0)) {
      return InvalidArgument(what + " has a null pointer");
    }
    if (tensor.dims > checkpoint::kMaxDims) {
      return InvalidArgument(what + " has more than 8 dimensions");
    }
    infos.push_back({tensor.name, tensor.dtype, {tensor.shape, tensor.shape + tensor.dims}});
    if (parts != nullptr && parts[i].of != nullptr) {
      ASSIGN_OR_RETURN(infos.back().part, PartOf(what, parts[i], tensor.dims));
    }
    given.memory.emplace_back(static_cast<std::byte*>(tensor.data), tensor.bytes);
  }
  ASSIGN_OR_RETURN(given.plan, checkpoint::StatePlan::Create(std::move(infos)));
  for (size_t i = 0; i < count; ++i) {
    if (given.memory[i].size() != given.plan.bytes(i)) {
      return InvalidArgument("tensor " + given.plan.tensors()[i].name + " has " +
                             std::to_string(given.memory[i].size()) +
                             " bytes, its shape and dtype " + std::to_string(given.plan.bytes(i)));
    }
  }
  return given;
}

}  // namespace longhaul::worker_api
