// Verifies every byte of a checkpoint that has a hash or CRC, and reports the damage.
//
// Longhaul's own format has a hash for each MiB of each tensor, and ZIP archives of PyTorch have a
// CRC-32 for each storage. Other safetensors files have none, so only their form is checked.
// Optionally checks all numbers too, and reports NaN and infinities by tensor.
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
  std::vector<std::string> tensors;  // affected ones, at most 8
};

struct NonFiniteTensor {
  std::string tensor;
  NonFinite count;
};

struct Verification {
  Format format = Format::kLonghaul;
  uint64_t files = 0;
  uint64_t tensors = 0;
  uint64_t bytes = 0;   // verified
  bool vouched = true;  // false: the format has no hashes
  std::vector<Damage> damage;
  std::vector<NonFiniteTensor> non_finite;
  bool good() const { return damage.empty(); }
};

struct VerifyOptions {
  bool numbers = false;  // look for NaN and infinities
  std::function<bool(uint64_t done, uint64_t total)> progress;
};

// Returns an error only when there is nothing to verify, or when it was stopped; damage is in the
// result.
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
  // Returns the newest step without damage; null when there is none.
  const StepVerification* newest_good() const;
  // Returns how many training steps the damaged ones have beyond the newest good one.
  uint64_t steps_lost() const;
};

// Verifies every step of a run, each as VerifyCheckpoint does. `path` as for FindSteps
// (open_checkpoint.h). Returns kNotFound when there is no step.
Result<RunVerification> VerifyRun(io::FileSystem& files, const std::string& path,
                                  const VerifyOptions& options);

// Verifies the ZIP archives of a catalog against their CRC-32s, which partial reads can't do.
// Returns kDataLoss with file, entry and byte; OK when there are no archives.
Status CheckArchives(io::FileSystem& files, const Catalog& catalog);

}  // namespace longhaul::checkpoint
