#include "checkpoint/formats/write_checkpoint.h"

#include "checkpoint/directory.h"
#include "checkpoint/formats/internal/write_parts.h"
#include "checkpoint/formats/verify.h"

namespace longhaul::checkpoint {

Status WriteCheckpoint(io::FileSystem& files, const Catalog& catalog, const std::string& path,
                       const WriteOptions& options) {
  io::FileSystem& source = options.source == nullptr ? files : *options.source;
  // Before anything is written: what was flipped in an archive would be sound in its copy.
  RETURN_IF_ERROR(CheckArchives(source, catalog));
  std::string target = path;
  while (target.size() > 1 && target.back() == '/') target.pop_back();
  const bool folder = options.format == Format::kDistributed ||
                      options.format == Format::kLonghaul || options.max_shard_bytes > 0;
  if (options.format == Format::kLonghaul) {
    RETURN_IF_ERROR(files.MakeDirectories(target));
    const uint64_t step = catalog.step > 0 ? catalog.step : options.step;
    target += "/" + CheckpointDirectory::NameOf(step, options.attempt);
  }
  ASSIGN_OR_RETURN(internal::Partial partial, internal::Partial::Begin(files, target, folder));
  internal::TensorStream stream(source, catalog, options);
  Status written;
  switch (options.format) {
    case Format::kLonghaul:
      written = internal::WriteLonghaul(files, catalog, stream, partial.path(), options);
      break;
    case Format::kSafetensors:
      written = internal::WriteSafetensors(files, catalog, stream, partial.path(), options);
      break;
    case Format::kTorch:
      written = internal::WriteTorch(catalog, stream, partial.path());
      break;
    case Format::kDistributed:
      written = internal::WriteDistributed(files, catalog, stream, partial.path(), options);
      break;
  }
  RETURN_IF_ERROR(written);
  return partial.Keep();
}

}  // namespace longhaul::checkpoint
