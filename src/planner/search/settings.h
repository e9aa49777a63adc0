// The text form of layouts: "tensor=8,pipeline=16,micro=1,recompute=full".
//
// One list of keys serves fixed values (--fix), named layouts (--why-not) and changes (--what-if),
// and a layout is printed in the same form, so that it can be used as input again. Common short
// names (tp, pp, vp, cp, ep, etp, dp, sp, mb) are accepted too. Text comes from outside: every
// value has bounds, unknown keys are rejected with the nearest key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "planner/evaluation.h"
#include "planner/search/plan_request.h"

namespace longhaul::planner::search {

std::vector<std::string_view> LayoutKeys();

// "KEY=VALUE", or several with commas between.
Status ParseFixed(std::string_view text, Fixed& fixed);

// All values of the layout that differ from their defaults, in that form.
std::string LayoutText(const spec::Training& training);

// "1f1b", "interleaved" is 1f1b with chunks; "none", "layer_norm+mlp", "full", "full:3"; ...
std::string_view ToText(spec::PipelineSchedule schedule);
std::string_view ToText(spec::ContextKind kind);
std::string_view ToText(spec::Offload offload);
std::string ToText(const spec::Recompute& recompute);
// With the runs of each stage: "full:2.mlp:3/mlp:4@6/none"; "stage" where they are not chosen.
std::string RecomputeText(const spec::Training& training);
// The same, one text for each stage.
std::vector<std::string> StageRecomputeTexts(const spec::Training& training);
std::string ToText(const spec::PlacementOrder& order);
std::string_view ToText(spec::Precision precision);
Result<spec::Precision> ParsePrecision(std::string_view text);

// Changes one thing of a question: a layout's key, a cluster's (spec/cluster/device_cluster.h),
// `batch`, `sequence` or `precision`. Where the dimensions change, data follows so that all devices
// are used. Rejects what spec::CheckTraining rejects.
Status Change(std::string_view key_and_value, Question& question);

}  // namespace longhaul::planner::search
