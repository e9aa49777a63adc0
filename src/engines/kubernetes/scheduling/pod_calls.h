// Actions of the scheduler of pods as calls of the API, and what the replies mean.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "engines/kubernetes/protocol/call.h"
#include "engines/kubernetes/protocol/response.h"
#include "engines/kubernetes/scheduling/pod_actions.h"
#include "engines/kubernetes/scheduling/pod_scheduler.h"

namespace longhaul::engines::kubernetes {

// `time`: the present one as the API writes it, "2026-01-31T08:00:00Z".
Result<Call> CallFor(const PodAction& action, std::string_view time);

// What a reply tells of a bind.
BindResult BindResultOf(const Verdict& verdict);

// Whether the pod is ending after this reply to its removal, or has ended.
bool IsRemoved(const Verdict& verdict);

}  // namespace longhaul::engines::kubernetes
