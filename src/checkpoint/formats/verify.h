// Looks at every byte of a checkpoint that something vouches for, and tells what is wrong where.
//
// Longhaul's own format has a hash for every MiB of every tensor, ZIP archives of PyTorch a CRC-32
// for every storage; safetensors of others has none, so only its form is checked. Asked for, every
// number is looked at too: NaN and infinities are told by tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/formats/catalog.h"
#include "checkpoint/formats/numbers.h"
#include "io/files/file.h"

namespace longhaul::checkpoint {

struct Damage {
  std::string file;
  uint64_t offset = 0;
  std::string what;
  std::vector<std::string> tensors;  // that lie there, at most 8
};

struct NonFiniteTensor {
  std::string tensor;
  NonFinite count;
};

struct Verification {
  Format format = Format::kLonghaul;
  uint64_t files = 0;
  uint64_t tensors = 0;
  uint64_t bytes = 0;   // that were vouched for and read
  bool vouched = true;  // false: the format has no hashes
  std::vector<Damage> damage;
  std::vector<NonFiniteTensor> non_finite;
  bool good() const { return damage.empty(); }
};

struct VerifyOptions {
  bool numbers = false;  // look for NaN and infinities
  std::function<bool(uint64_t done, uint64_t total)> progress;
};

// An error only when there is nothing to verify, or when it was stopped; damage is in the result.
Result<Verification> VerifyCheckpoint(io::FileSystem& files, const std::string& path,
                                      const VerifyOptions& options);

// A step of a run, verified.
struct StepVerification {
  std::string name;  // "step-000000040.e3"
  uint64_t step = 0;
  Verification found;
};

struct RunVerification {
  std::string folder;                    // of the steps
  std::vector<StepVerification> steps;   // those with a manifest, newest first
  std::vector<std::string> uncommitted;  // the names of those without one
  bool good() const;
  // The newest step that is good; null when none is.
  const StepVerification* newest_good() const;
  // How many steps of training the damaged ones hold beyond the newest good one.
  uint64_t steps_lost() const;
};

// Every step of a run, as VerifyCheckpoint does one. `path` as for FindSteps (open_checkpoint.h).
// kNotFound when there is no step.
Result<RunVerification> VerifyRun(io::FileSystem& files, const std::string& path,
                                  const VerifyOptions& options);

// Holds every byte of the ZIP archives that a catalog lies in against their CRC-32s, which no read
// of a part of them does. kDataLoss naming file, entry and byte. Fine where there is none.
Status CheckArchives(io::FileSystem& files, const Catalog& catalog);

}  // namespace longhaul::checkpoint
