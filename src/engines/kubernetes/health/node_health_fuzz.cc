// Any text as a node, a pod, a ResourceSlice and a DeviceTaintRule: what is read is bounded, and
// decisions on it are valid calls.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "engines/kubernetes/health/node_health.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;
  using namespace longhaul::engines::kubernetes;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const JobJson object = JobJson::parse(text, nullptr, false);
  if (object.is_discarded()) return 0;
  NodeHealthSettings settings;
  settings.taint = "NoSchedule";
  NodeHealth health(settings);
  health.OnPod("default/p", object);
  health.OnSlice("s", object);
  health.OnTaintRule("r", object);
  if (!health.OnNode(object).ok()) return 0;
  const ObservedNode node = *ReadObservedNode(object, settings.conditions);
  CHECK(node.conditions.size() <= kMostEvidence);
  CHECK(!node.record || node.record->evidence.size() <= kMostEvidence);
  Instant now{};
  for (int i = 0; i < 3; ++i) {
    for (const NodeAction& action : health.Advance(now, now)) {
      const Result<Call> call = CallFor(action);
      // A name that the API server would have refused gives no call.
      CHECK(!call.ok() || !JobJson::parse(call->body, nullptr, false).is_discarded());
      if (const auto* patch = std::get_if<PatchNode>(&action)) {
        CHECK(patch->patch["metadata"]["resourceVersion"] == node.version);
      }
      health.OnReply(action, PatchResult::kRefused, now);
    }
    now += std::chrono::minutes(10);
  }
  return 0;
}
