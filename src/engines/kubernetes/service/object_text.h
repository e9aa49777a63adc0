// What the services that read objects as JSON share.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "engines/kubernetes/jobs/longhaul_job.h"
#include "engines/kubernetes/protocol/objects/padded_text.h"

namespace longhaul::engines::kubernetes {

// After so many different complaints about objects the same ones are logged again.
inline constexpr size_t kMostComplaints = 100;

inline Result<JobJson> ParseObject(PaddedText text) {
  JobJson object = JobJson::parse(text.text, nullptr, false);
  if (object.is_discarded()) return InvalidArgument("an object is no JSON");
  return object;
}

}  // namespace longhaul::engines::kubernetes
