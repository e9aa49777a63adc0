// Where a resumed run continues: at its newest checkpoint that verifies in full; and which newer
// ones are damaged.
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
  std::optional<Manifest> good;       // nothing: all are damaged
  std::vector<UnusableStep> damaged;  // newest first; all that were found
};

// Verifies the steps in `folder` in full, newest first, until one is good. `check` returns an error
// for a step of another job, which is returned.
Result<ResumePoint> FindResumePoint(io::FileSystem& files, const std::string& folder,
                                    const std::function<Status(const Manifest&)>& check);

// Renames the damaged steps above `step`, from which the run continues, to names that begin with
// "damaged-", so that their names are free when training reaches them again. Returns the messages:
// each damaged step with the reason, and how many steps are lost.
Result<std::vector<std::string>> MoveDamagedAside(io::FileSystem& files, const std::string& folder,
                                                  const ResumePoint& point, uint64_t step);

// Lists the damaged steps: "step-000000040.e3 (its hash differs), ...".
std::string DamagedSteps(const std::vector<UnusableStep>& damaged);

}  // namespace longhaul::checkpoint
