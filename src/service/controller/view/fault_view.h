// One fault of a run as the web page shows it: the facts and sentences of `longhaul explain`, the
// stages of the recovery and the cost in seconds of accelerators. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/time.h"
#include "proto/status.pb.h"
#include "story/story.h"

namespace longhaul::service {

// Returns the answer of GET /v1/view/run/{id}/faults/{number}, docs/openapi.yaml. Requires that
// `fault` is one of the story's.
nlohmann::ordered_json FaultViewJson(const story::Story& story, const story::FaultStory& fault,
                                     const proto::JobStatus& status, Instant now);

}  // namespace longhaul::service
