#include "checkpoint/formats/verify.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "checkpoint/copy.h"
#include "checkpoint/formats/catalog_reader.h"
#include "checkpoint/formats/open_checkpoint.h"
#include "checkpoint/formats/torch_file.h"

namespace longhaul::checkpoint {
namespace {

constexpr size_t kMaxDamage = 1000;
constexpr size_t kMaxNamed = 8;
constexpr uint64_t kNumberBytes = 4 << 20;

class Verifier {
 public:
  Verifier(io::FileSystem& files, const Catalog& catalog, const VerifyOptions& options)
      : files_(files), catalog_(catalog), options_(options) {
    out_.format = catalog.format;
    out_.tensors = catalog.tensors.size();
    for (const CatalogFile& file : catalog.files) {
      out_.files += file.in_memory ? 0 : 1;
      for (const HashedChunk& chunk : file.chunks) total_ += chunk.bytes;
      for (const CatalogArchive& archive : file.archives) total_ += archive.bytes;
    }
    if (options.numbers) total_ += catalog.TotalBytes();
  }

  Result<Verification> Run() {
    // Plain safetensors files have no hashes, so reading them without an error proves nothing about
    // their contents.
    out_.vouched = catalog_.format != Format::kSafetensors;
    for (uint32_t i = 0; i < catalog_.files.size(); ++i) {
      if (catalog_.files[i].in_memory) continue;
      RETURN_IF_ERROR(CheckFile(i));
    }
    if (options_.numbers) {
      for (uint32_t i = 0; i < catalog_.tensors.size(); ++i) RETURN_IF_ERROR(CheckNumbers(i));
    }
    return std::move(out_);
  }

 private:
  Status Count(uint64_t bytes) {
    done_ += bytes;
    const bool go_on = !options_.progress || options_.progress(done_, total_);
    return go_on ? Status() : CancelledError("stopped before everything was looked at");
  }

  // At most kMaxDamage entries: a file that is lost altogether would give one for each of its
  // chunks.
  void AddDamage(uint32_t file, uint64_t offset, uint64_t bytes, std::string what) {
    if (out_.damage.size() >= kMaxDamage) return;
    Damage damage{catalog_.files[file].path, offset, std::move(what), {}};
    for (const SavedShard& shard : catalog_.shards) {
      const uint64_t size = static_cast<uint64_t>(shard.box.elements()) *
                            DtypeBytes(catalog_.tensors[shard.tensor].dtype).value_or(0);
      if (shard.file == file && shard.file_offset < offset + bytes &&
          offset < shard.file_offset + size && damage.tensors.size() < kMaxNamed) {
        damage.tensors.push_back(catalog_.tensors[shard.tensor].name);
      }
    }
    out_.damage.push_back(std::move(damage));
  }

  // Damage does not end the verification, so that one run shows everything that is damaged. Only a
  // stop by the caller does.
  Status CheckFile(uint32_t index) {
    const CatalogFile& file = catalog_.files[index];
    const auto opened = files_.Open(file.path);
    if (!opened.ok()) {
      AddDamage(index, 0, file.bytes, opened.status().message());
      return {};
    }
    std::vector<std::byte> buffer;
    for (const HashedChunk& chunk : file.chunks) {
      buffer.resize(chunk.bytes);
      const Status read = (*opened)->Read(chunk.offset, buffer);
      if (!read.ok()) {
        AddDamage(index, chunk.offset, chunk.bytes, read.message());
      } else if (HashChunk(buffer) != chunk.hash) {
        AddDamage(index, chunk.offset, chunk.bytes, "its hash differs");
      }
      out_.bytes += chunk.bytes;
      RETURN_IF_ERROR(Count(chunk.bytes));
    }
    for (const CatalogArchive& archive : file.archives) {
      const Status sound = VerifyTorchFile(**opened, archive.offset, archive.bytes);
      if (!sound.ok()) AddDamage(index, archive.offset, archive.bytes, sound.message());
      out_.bytes += archive.bytes;
      RETURN_IF_ERROR(Count(archive.bytes));
    }
    return {};
  }

  // In parts, so that memory does not grow with the largest tensor. A part that cannot be read was
  // reported as damage before.
  Status CheckNumbers(uint32_t tensor) {
    CatalogReader reader(files_, catalog_);
    const TensorInfo& info = catalog_.tensors[tensor];
    const uint64_t element = DtypeBytes(info.dtype).value_or(1);
    const uint64_t bytes = catalog_.TensorBytes(tensor);
    std::vector<std::byte> buffer;
    NonFinite found;
    for (uint64_t at = 0; at < bytes; at += buffer.size()) {
      buffer.resize(std::min(kNumberBytes, bytes - at));
      ReadOptions unverified;  // every hash has been looked at
      unverified.verify = false;
      const Status read =
          reader.ReadRange(tensor, static_cast<int64_t>(at / element), buffer, unverified);
      if (read.ok()) CountNonFinite(info.dtype, buffer, at / element, found);
      RETURN_IF_ERROR(Count(buffer.size()));
    }
    if (found.first.has_value()) out_.non_finite.push_back({info.name, found});
    return {};
  }

  io::FileSystem& files_;
  const Catalog& catalog_;
  const VerifyOptions& options_;
  Verification out_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

}  // namespace

Result<Verification> VerifyCheckpoint(io::FileSystem& files, const std::string& path,
                                      const VerifyOptions& options) {
  std::vector<DamagedFile> damaged;
  const Result<Catalog> catalog = OpenCheckpoint(files, path, &damaged);
  Verification result;
  for (DamagedFile& file : damaged) {
    result.damage.push_back({std::move(file.path), 0, std::move(file.what), {}});
  }
  // Data that are damaged are a finding of the verification. Other errors, such as a path that does
  // not exist, are errors of the call.
  if (catalog.status().code() == Code::kDataLoss) {
    result.damage.push_back({path, 0, catalog.status().message(), {}});
    return result;
  }
  if (!catalog.ok()) return catalog.status();
  ASSIGN_OR_RETURN(Verification found, Verifier(files, *catalog, options).Run());
  found.damage.insert(found.damage.begin(), std::make_move_iterator(result.damage.begin()),
                      std::make_move_iterator(result.damage.end()));
  return found;
}

bool RunVerification::good() const {
  return std::all_of(steps.begin(), steps.end(),
                     [](const StepVerification& step) { return step.found.good(); });
}

const StepVerification* RunVerification::newest_good() const {
  for (const StepVerification& step : steps) {
    if (step.found.good()) return &step;
  }
  return nullptr;
}

uint64_t RunVerification::steps_lost() const {
  const StepVerification* good = newest_good();
  const uint64_t from = good == nullptr ? 0 : good->step;
  return steps.empty() ? 0 : steps.front().step - from;
}

Result<RunVerification> VerifyRun(io::FileSystem& files, const std::string& path,
                                  const VerifyOptions& options) {
  ASSIGN_OR_RETURN(const StepsAt at, FindSteps(files, path));
  RunVerification run;
  run.folder = at.folder;
  for (const UnusableStep& one : at.steps.uncommitted) {
    run.uncommitted.push_back(CheckpointDirectory::NameOf(one.step, one.attempt));
  }
  std::vector<std::pair<uint64_t, uint64_t>> ids;  // step and attempt
  for (const Manifest& one : at.steps.committed) ids.emplace_back(one.step, one.attempt);
  // A step with a damaged manifest was committed, so it counts among those that are lost.
  for (const UnusableStep& one : at.steps.damaged) ids.emplace_back(one.step, one.attempt);
  if (ids.empty()) return NotFound(at.folder + " has no step that is committed");
  // Newest first: steps_lost() and newest_good() depend on this order.
  std::sort(ids.rbegin(), ids.rend());
  for (const auto& [step, attempt] : ids) {
    const std::string name = CheckpointDirectory::NameOf(step, attempt);
    ASSIGN_OR_RETURN(Verification found, VerifyCheckpoint(files, at.folder + "/" + name, options));
    run.steps.push_back({name, step, std::move(found)});
  }
  return run;
}

Status CheckArchives(io::FileSystem& files, const Catalog& catalog) {
  for (const CatalogFile& file : catalog.files) {
    if (file.in_memory || file.archives.empty()) continue;
    ASSIGN_OR_RETURN(const auto opened, files.Open(file.path));
    for (const CatalogArchive& archive : file.archives) {
      const Status sound = VerifyTorchFile(*opened, archive.offset, archive.bytes);
      if (!sound.ok()) return sound.WithContext(file.path);
    }
  }
  return {};
}

}  // namespace longhaul::checkpoint
