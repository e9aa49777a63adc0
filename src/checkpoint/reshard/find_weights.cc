#include "checkpoint/reshard/find_weights.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "checkpoint/directory.h"
#include "checkpoint/formats/catalog_reader.h"
#include "checkpoint/formats/open_checkpoint.h"
#include "checkpoint/reshard/box.h"

namespace longhaul::checkpoint {
namespace {

constexpr uint64_t kReadBytes = 16 << 20;  // at once, of a tensor that is only to be verified

// "F32 [128, 64]"
std::string Form(const TensorInfo& tensor) {
  std::string form = tensor.dtype + " [";
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    form += (i > 0 ? ", " : "") + std::to_string(tensor.shape[i]);
  }
  return form + "]";
}

// How the weights of a step differ from the model's; empty when they don't.
std::string WhyOther(const Manifest& manifest, std::span<const TensorInfo> weights) {
  std::unordered_map<std::string_view, const TensorInfo*> saved;
  for (const TensorInfo& tensor : manifest.tensors) saved.emplace(tensor.name, &tensor);
  std::string first;
  size_t missing = 0;
  size_t reshaped = 0;
  size_t extra = 0;
  const auto note = [&first](size_t& count, const std::string& what) {
    if (first.empty()) first = what;
    ++count;
  };
  std::unordered_set<std::string_view> wanted;
  for (const TensorInfo& tensor : weights) {
    wanted.insert(tensor.name);
    const auto found = saved.find(tensor.name);
    const std::string of_model = Printable(tensor.name) + ", " + Form(tensor) + " in the model, ";
    if (found == saved.end()) {
      note(missing, of_model + "which the checkpoint lacks");
    } else if (found->second->dtype != tensor.dtype || found->second->shape != tensor.shape) {
      note(reshaped, of_model + Form(*found->second) + " in the checkpoint");
    }
  }
  for (const TensorInfo& tensor : manifest.tensors) {
    // The state of the optimizer is not used by a run that starts from weights.
    if (wanted.contains(tensor.name) || tensor.name.starts_with(kOptimizerPrefix)) continue;
    note(extra, Printable(tensor.name) + ", " + Form(tensor) +
                    " in the checkpoint, which the model lacks");
  }
  if (first.empty()) return "";
  return "of " + std::to_string(weights.size()) + " tensors of the model " +
         std::to_string(missing) + " are missing and " + std::to_string(reshaped) +
         " have another shape or type, " + std::to_string(extra) +
         " of the checkpoint are not in the model; the first is " + first;
}

// Reads all weights of a step, a stretch at a time, and holds every byte against its hash.
// In parts, so that memory does not grow with the model.
Status ReadThrough(io::FileSystem& files, const std::string& folder, const Manifest& manifest,
                   std::span<const TensorInfo> weights) {
  ASSIGN_OR_RETURN(const Catalog catalog, OpenPieces(files, folder, manifest));
  std::unordered_map<std::string_view, uint32_t> indexes;
  for (uint32_t i = 0; i < catalog.tensors.size(); ++i) {
    indexes.emplace(catalog.tensors[i].name, i);
  }
  CatalogReader reader(files, catalog);
  std::vector<std::byte> buffer(kReadBytes);
  for (const TensorInfo& tensor : weights) {
    const uint64_t element = DtypeBytes(tensor.dtype).value_or(1);
    const auto elements = static_cast<uint64_t>(Box::Whole(tensor.shape).elements());
    const uint64_t at_once = kReadBytes / element;
    for (uint64_t at = 0; at < elements; at += at_once) {
      const auto to = std::span(buffer).first(std::min(at_once, elements - at) * element);
      RETURN_IF_ERROR(reader.ReadRange(indexes.at(tensor.name), static_cast<int64_t>(at), to));
    }
  }
  return {};
}

// Where the steps lie, and those to be looked at, the newest first.
struct Candidates {
  std::string folder;
  std::vector<Manifest> steps;
  std::vector<UnusableStep> damaged;
};

Result<Candidates> OneStep(io::FileSystem& files, const std::string& path) {
  const size_t slash = path.rfind('/');
  Candidates found;
  found.folder = slash == std::string::npos ? "." : path.substr(0, slash);
  // The name and its manifest must agree; OpenStep says how they don't.
  CheckpointDirectory directory(files, found.folder);
  ASSIGN_OR_RETURN(const Catalog catalog, OpenStep(files, path));
  ASSIGN_OR_RETURN(Manifest manifest, directory.Read(catalog.step, catalog.attempt));
  found.steps.push_back(std::move(manifest));
  return found;
}

Result<Candidates> Look(io::FileSystem& files, const std::string& path) {
  if (files.Size(path).ok()) {
    return InvalidArgument(path + " is a file, not a checkpoint of a run: longhaul checkpoint " +
                           "convert FROM FOLDER --to longhaul makes one of it");
  }
  const auto names = files.List(path);
  if (!names.ok() && names.status().code() != Code::kNotFound) return names.status();
  if (!names.ok() || names->empty()) return NotFound("there is no checkpoint at " + path);
  const auto has = [&](std::string_view name) {
    return std::find(names->begin(), names->end(), name) != names->end();
  };
  if (has("MANIFEST")) return OneStep(files, path);
  Candidates found;
  found.folder = has("checkpoints") ? path + "/checkpoints" : path;
  ASSIGN_OR_RETURN(StepSurvey survey, CheckpointDirectory(files, found.folder).Survey());
  found.steps = std::move(survey.committed);
  found.damaged = std::move(survey.damaged);
  if (!found.steps.empty() || !found.damaged.empty()) return found;
  const bool foreign = std::any_of(names->begin(), names->end(), [](const std::string& name) {
    return name == ".metadata" || name.ends_with(".safetensors");
  });
  if (foreign) {
    return InvalidArgument(path + " is a checkpoint of another format: longhaul checkpoint " +
                           "convert FROM FOLDER --to longhaul makes one of it");
  }
  return NotFound(found.folder + " has no committed step");
}

}  // namespace

Result<FoundWeights> FindWeights(io::FileSystem& files, const std::string& given,
                                 std::span<const TensorInfo> weights) {
  std::string path = given;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  ASSIGN_OR_RETURN(const Candidates candidates, Look(files, path));
  FoundWeights found;
  found.folder = candidates.folder;
  for (const Manifest& manifest : candidates.steps) {
    const std::string at =
        candidates.folder + "/" + CheckpointDirectory::NameOf(manifest.step, manifest.attempt);
    // All steps of a run are of one model, so the newest one decides and older ones are not
    // examined.
    const std::string why = WhyOther(manifest, weights);
    if (!why.empty()) return FailedPrecondition(at + " is of another model: " + why);
    const Status read = ReadThrough(files, candidates.folder, manifest, weights);
    if (read.ok()) {
      found.step = manifest.step;
      found.attempt = manifest.attempt;
      for (const UnusableStep& one : candidates.damaged) {
        if (one.step > found.step) found.passed_over.push_back(one.reason);
      }
      return found;
    }
    // Of a run that continues, an old step may be removed while it is read.
    if (read.code() != Code::kDataLoss && read.code() != Code::kNotFound) return read;
    found.passed_over.push_back(read.message());
  }
  for (const UnusableStep& one : candidates.damaged) found.passed_over.push_back(one.reason);
  return DataLoss("no step at " + path + " is good: " + found.passed_over.front());
}

}  // namespace longhaul::checkpoint
