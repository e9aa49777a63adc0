// One question per line, one answer per line: JSON in, JSON out (docs/planner-cases.md).
//
// A case is a published or planned run with gaps. A key that is null or absent is a gap. A gap that
// follows from the framework's usual settings is filled at once (kv_heads as heads, ZeRO stage 1
// under Megatron, ...); a gap that needs the calculator stays open and is decided by DecideOpen: of
// the choices that fit, the fastest, with the least recompute that fits. Every filled value is
// listed in `assumed`. Nothing depends on the names of the case or the model.
//
// Text comes from outside: a line has at most 1 MiB, all numbers are bounded, and the answer to any
// line is one line.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "planner/evaluation.h"

namespace longhaul::planner {

// The choices that the calculator must decide.
struct OpenChoices {
  bool tensor = false;
  bool pipeline = false;
  bool virtual_pipeline = false;
  bool expert = false;
  bool data = false;  // follows from the others
  bool micro_batch = false;
  bool recompute = false;
  bool moments = false;  // of the optimizer: two bytes without a master copy where four do not fit

  bool any_size() const { return tensor || pipeline || virtual_pipeline || expert || micro_batch; }
  bool any() const { return any_size() || recompute || moments; }
};

struct Case {
  std::string id;
  Question question;
  OpenChoices open;
  bool global_batch_known = true;  // false: asks for one micro-batch per stage and step
  std::vector<std::string> assumed;
  std::vector<std::string> unknown;  // unsupported keys
};

// Fills `parsed` from one line. `parsed.id` is set on failure too, where it is readable.
Status ParseCase(std::string_view line, Case& parsed);

using EvaluateQuestion = std::function<Evaluation(const Question&)>;

// Decides the open choices and checks the outcome against spec::CheckTraining: the fastest one that
// leaves 4 % of the GPU free, else the fastest that fits; if nothing fits, the one that needs least
// memory. Returns kInvalidArgument where no choice is legal.
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
