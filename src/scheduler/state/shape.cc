#include "scheduler/state/shape.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/units.h"

namespace longhaul::scheduler {

namespace {

constexpr int64_t kMaxAmount = std::numeric_limits<int32_t>::max();

Result<int32_t> Amount(std::string_view what, int64_t amount) {
  if (amount < 0 || amount > kMaxAmount) {
    return InvalidArgument("a task asks for " + std::string(what) + " of " + WithThousands(amount) +
                           ": 0 to " + WithThousands(kMaxAmount) + ", please");
  }
  return static_cast<int32_t>(amount);
}

// "did you mean 'H100'", or all that are known.
std::string Known(std::string_view word, const std::vector<std::string_view>& known) {
  if (known.empty()) return "the cluster has none";
  if (const auto nearest = Nearest(word, known)) {
    return "did you mean '" + std::string(*nearest) + "'";
  }
  return "known: " + Join(std::vector<std::string>(known.begin(), known.end()), ", ");
}

Result<uint64_t> ModelMask(const std::set<std::string>& models, const spec::Topology& topology) {
  if (models.empty()) return kAnyModel;
  uint64_t mask = 0;
  for (const std::string& name : models) {
    const auto model = topology.FindModel(name);
    if (!model) {
      std::vector<std::string_view> known;
      for (const auto& each : topology.models()) known.push_back(each.name);
      return InvalidArgument("no node has devices of model '" + Printable(name, 60) + "'; " +
                             Known(name, known));
    }
    mask |= uint64_t{1} << *model;
  }
  return mask;
}

// Both sets of taints are sorted, as `std::includes` requires: a class suits only where the task
// tolerates all of its taints.
bool Suits(const spec::NodeClass& node_class, const TaskRequest& request) {
  for (const auto& [label, value] : request.selector) {
    const auto found = node_class.labels.find(label);
    if (found == node_class.labels.end() || found->second != value) return false;
  }
  return std::includes(request.tolerates.begin(), request.tolerates.end(),
                       node_class.taints.begin(), node_class.taints.end());
}

Status ResolveCounted(const TaskRequest& request, const spec::Topology& topology, Shape& shape) {
  for (const auto& [name, amount] : request.counted) {
    const auto names = topology.counted();
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      return InvalidArgument("the cluster doesn't count '" + Printable(name, 60) + "'; " +
                             Known(name, {names.begin(), names.end()}));
    }
    ASSIGN_OR_RETURN(shape.counted[static_cast<size_t>(found - names.begin())],
                     Amount(name, amount));
  }
  return {};
}

}  // namespace

ClassSet ClassSet::All() {
  ClassSet all;
  all.words.fill(~uint64_t{0});
  return all;
}

Result<Shape> ResolveRequest(const TaskRequest& request, const spec::Topology& topology) {
  Shape shape;
  if (request.gpus > 0 && request.share_milli > 0) {
    return InvalidArgument("a task takes whole GPUs or a share of one GPU, not both");
  }
  if (request.gpus > spec::kMaxDevices) {
    return InvalidArgument("a task asks for " + std::to_string(request.gpus) + " GPUs: at most " +
                           std::to_string(spec::kMaxDevices) + " on a node");
  }
  if (request.share_milli > kWholeGpu) {
    return InvalidArgument("a task asks for " + std::to_string(request.share_milli) +
                           " thousandths of one GPU: ask for whole GPUs above 1,000");
  }
  // A share of 1,000 is a whole GPU.
  const bool whole = request.share_milli == kWholeGpu;
  shape.gpus = static_cast<uint8_t>(whole ? 1 : request.gpus);
  shape.share = static_cast<uint16_t>(whole ? 0 : request.share_milli);
  if (!shape.needs_devices() && request.gpu_memory_mib != 0) {
    return InvalidArgument("a task asks for memory of a device but for no device");
  }
  ASSIGN_OR_RETURN(shape.gpu_memory_mib, Amount("device memory (MiB)", request.gpu_memory_mib));
  ASSIGN_OR_RETURN(shape.cpu_milli, Amount("cpu (thousandths)", request.cpu_milli));
  ASSIGN_OR_RETURN(shape.memory_mib, Amount("memory (MiB)", request.memory_mib));
  RETURN_IF_ERROR(ResolveCounted(request, topology, shape));
  ASSIGN_OR_RETURN(shape.models, ModelMask(request.models, topology));
  shape.classes = ClassSet{};
  size_t suitable = 0;
  for (size_t i = 0; i < topology.classes().size(); ++i) {
    if (!Suits(topology.classes()[i], request)) continue;
    shape.classes.insert(static_cast<uint16_t>(i));
    ++suitable;
  }
  if (suitable == 0) {
    return InvalidArgument("no node of the cluster has the labels that the task selects" +
                           std::string(request.tolerates.empty() ? " without a taint" : ""));
  }
  // All classes are one value, so that plain requests are equal shapes on every cluster.
  if (suitable == topology.classes().size()) shape.classes = ClassSet::All();
  return shape;
}

namespace {

std::string Text(const Shape& shape, std::span<const std::string> counted) {
  const auto thousandths = [](int32_t milli) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", milli / 1'000.0);
    return std::string(text);
  };
  const auto mebibytes = [](int32_t mib) { return ToString(Bytes(int64_t{mib} << 20)); };
  std::vector<std::string> parts;
  if (shape.gpus > 0) {
    parts.push_back(std::to_string(shape.gpus) + (shape.gpus == 1 ? " GPU" : " GPUs"));
  } else if (shape.share > 0) {
    parts.push_back(thousandths(shape.share) + " of a GPU");
  }
  if (shape.gpu_memory_mib > 0) parts.back() += " with " + mebibytes(shape.gpu_memory_mib);
  if (shape.cpu_milli > 0) parts.push_back(thousandths(shape.cpu_milli) + " cpu");
  if (shape.memory_mib > 0) parts.push_back(mebibytes(shape.memory_mib));
  for (size_t i = 0; i < counted.size() && i < shape.counted.size(); ++i) {
    if (shape.counted[i] == 0 || counted[i] == "pods") continue;
    parts.push_back(std::to_string(shape.counted[i]) + " " + counted[i]);
  }
  return parts.empty() ? "nothing" : Join(parts, ", ");
}

}  // namespace

std::string ToString(const Shape& shape) { return Text(shape, {}); }

std::string ToString(const Shape& shape, const spec::Topology& topology) {
  return Text(shape, topology.counted());
}

size_t ShapeTable::Hash::operator()(const Shape& shape) const {
  // Field by field: the gaps between them have no value.
  const std::array<uint64_t, 13> words = {uint64_t{shape.gpus} << 32 | shape.share,
                                          static_cast<uint64_t>(shape.gpu_memory_mib),
                                          static_cast<uint64_t>(shape.cpu_milli),
                                          static_cast<uint64_t>(shape.memory_mib),
                                          static_cast<uint64_t>(shape.counted[0]),
                                          static_cast<uint64_t>(shape.counted[1]),
                                          static_cast<uint64_t>(shape.counted[2]),
                                          static_cast<uint64_t>(shape.counted[3]),
                                          shape.models,
                                          shape.classes.words[0],
                                          shape.classes.words[1],
                                          shape.classes.words[2],
                                          shape.classes.words[3]};
  return Hash64(words.data(), sizeof words);
}

ShapeId ShapeTable::Intern(const Shape& shape) {
  CHECK(shape.gpus <= spec::kMaxDevices && shape.share < kWholeGpu);
  CHECK(shape.gpus == 0 || shape.share == 0) << "GPUs and a share of one exclude each other";
  CHECK(shape.cpu_milli >= 0 && shape.memory_mib >= 0 && shape.gpu_memory_mib >= 0);
  CHECK(*std::min_element(shape.counted.begin(), shape.counted.end()) >= 0);
  const auto [it, fresh] = ids_.try_emplace(shape, size());
  if (fresh) {
    CHECK(shapes_.size() < kMaxShapes);
    shapes_.push_back(shape);
  }
  return ShapeId{it->second};
}

}  // namespace longhaul::scheduler
