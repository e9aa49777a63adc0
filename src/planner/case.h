// One question a line, one answer a line: JSON in, JSON out (docs/planner-cases.md).
//
// A case is a published or planned run with gaps. A key that is null or absent means "not said":
// what any user of that framework would have is filled in at once (kv_heads as heads, ZeRO stage 1
// under Megatron, ...); what needs the calculator is left open and decided by DecideOpen: of the
// choices that fit, the fastest, with the least recompute that fits. Everything filled in is listed
// in `assumed`. Nothing depends on the names of the case or the model.
//
// Text comes from outside: a line has at most 1 MiB, all numbers are bounded, and whatever a line
// holds, the answer is one line.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "planner/evaluation.h"

namespace longhaul::planner {

// What is left for the calculator to decide.
struct OpenChoices {
  bool tensor = false;
  bool pipeline = false;
  bool virtual_pipeline = false;
  bool expert = false;
  bool data = false;  // follows from the others
  bool micro_batch = false;
  bool recompute = false;
  bool moments = false;  // of the optimizer: two bytes without a master where four don't fit

  bool any_size() const { return tensor || pipeline || virtual_pipeline || expert || micro_batch; }
  bool any() const { return any_size() || recompute || moments; }
};

struct Case {
  std::string id;
  Question question;
  OpenChoices open;
  bool global_batch_known = true;  // false: one micro-batch a stage and step is asked for
  std::vector<std::string> assumed;
  std::vector<std::string> unknown;  // keys that nobody knows
};

// Fills `parsed` from one line. `parsed.id` is set on failure too, where it could be read.
Status ParseCase(std::string_view line, Case& parsed);

using EvaluateQuestion = std::function<Evaluation(const Question&)>;

// Decides what is open and checks the outcome against spec::CheckTraining: the fastest that leaves
// 4 % of the GPU free, else that fits; if nothing fits, what needs least. Refuses with
// kInvalidArgument where no choice is legal.
Status DecideOpen(const EvaluateQuestion& evaluate, Case& decided);

struct StepBand {
  Seconds low;
  Seconds high;
};
using BandOf = std::function<StepBand(const Case&, const Evaluation&)>;

// JSON objects on one line, without a line end.
std::string AnswerText(const Case& answered, const Evaluation& evaluation, const StepBand& band);
std::string ErrorText(std::string_view id, const Status& status);

// All of the above for one line.
std::string AnswerCase(std::string_view line, const EvaluateQuestion& evaluate, const BandOf& band);

}  // namespace longhaul::planner
