// Where a resumed run continues: the newest of its checkpoints of which every byte is as it was
// written, and which newer ones are damaged.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/directory.h"
#include "io/files/file.h"

namespace longhaul::checkpoint {

struct ResumePoint {
  std::optional<Manifest> good;       // nothing: no step is
  std::vector<UnusableStep> damaged;  // newest first; all that were found
};

// Reads every byte of the steps in `folder`, newest first, until one is good. `check` refuses a
// step that is of another job; its error is returned.
Result<ResumePoint> FindResumePoint(io::FileSystem& files, const std::string& folder,
                                    const std::function<Status(const Manifest&)>& check);

// The damaged steps that are newer than `step`, which the run continues from, get names that begin
// with "damaged-", so that their own are free when training comes to them again. Returns what is to
// be told: each damaged step with the reason, and how many steps are lost.
Result<std::vector<std::string>> MoveDamagedAside(io::FileSystem& files, const std::string& folder,
                                                  const ResumePoint& point, uint64_t step);

// The damaged steps in one text: "step-000000040.e3 (its hash differs), ...".
std::string DamagedSteps(const std::vector<UnusableStep>& damaged);

}  // namespace longhaul::checkpoint
