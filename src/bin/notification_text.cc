#include "bin/notification_text.h"

#include <algorithm>

#include "base/format.h"
#include "base/time.h"

namespace longhaul::bin {
namespace {

using service::Json;

std::string TextOf(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

double Number(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0.0;
}

std::string WithReason(std::string text, const std::string& reason) {
  return reason.empty() ? text : std::move(text) + ": " + reason;
}

std::string AttemptText(const Json& attempt) {
  std::string text = TextOf(attempt, "attempt") + " on " + TextOf(attempt, "gang");
  const auto restore = attempt.find("restore");
  if (restore == attempt.end()) return text;
  const std::string tier = TextOf(*restore, "tier");
  return text + (tier == "tier_none"
                     ? std::string(", fresh")
                     : ", from " + tier.substr(5) + " at step " + TextOf(*restore, "step"));
}

std::string StepText(const Json& step) {
  std::string text = TextOf(step, "step") + "/" + TextOf(step, "total_steps") + "  loss " +
                     Decimal(Number(step, "loss"), 3);
  if (TextOf(step, "has_validation_loss") == "true") {
    text += "  validation " + Decimal(Number(step, "validation_loss"), 3);
  }
  return text + "  " + Compact(Number(step, "tokens_per_second")) + " tokens/s";
}

std::string NodeText(const Json& node) {
  const std::string state = TextOf(node, "connected") != "true"  ? " is gone"
                            : TextOf(node, "cordoned") == "true" ? " is cordoned"
                                                                 : " is ready";
  return TextOf(node, "name") + state;
}

std::string Body(const std::string& kind, const Json& json) {
  if (kind == "state") return WithReason(TextOf(json, "state"), TextOf(json, "reason"));
  if (kind == "attempt") return AttemptText(json);
  if (kind == "step") return StepText(json);
  if (kind == "snapshot") {
    return "step " + TextOf(json, "step") + " in " + TextOf(json, "tier") + " after " +
           SecondsText(Number(json, "seconds"));
  }
  if (kind == "fault") return WithReason(TextOf(json, "what"), TextOf(json, "action"));
  if (kind == "message") return TextOf(json, "text");
  if (kind == "node") return NodeText(json);
  return json.dump();
}

}  // namespace

std::string NotificationLine(const service::FeedEvent& event) {
  const auto at = static_cast<int64_t>(Number(event.data, "at_ns"));
  const auto found = event.data.find(event.kind);
  std::string kind = event.kind;
  kind.resize(std::max<size_t>(8, kind.size()), ' ');
  const std::string job = TextOf(event.data, "job_id");
  return Harmless(ToString(InstantFromNanoseconds(at)) + "  " + kind + "  " +
                  (job.empty() ? "" : job + "  ") +
                  Body(event.kind, found == event.data.end() ? event.data : *found));
}

}  // namespace longhaul::bin
