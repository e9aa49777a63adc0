// A range of consecutive steps of a run: those that the user requested, or as many as memory
// holds.
//
// A rank's part of the window is the work that its host launched from the begin of the first step
// to the begin of the step after the last, as in a trace that was recorded for these steps alone.
// So every member of a group has the same calls in it, at any time of execution.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "profiler/rank/intervals.h"
#include "profiler/rank/links.h"

namespace longhaul::profiler {

// For each step: the number at the end of its name ("ProfilerStep#12"), or its index from 0 where a
// name has none or the numbers do not grow.
std::vector<int64_t> StepNumbers(const std::vector<Step>& steps);

// "20-29", or one number.
Result<StepWindow> ParseStepWindow(std::string_view text);

// Keeps the steps of the host that lie in the window. Returns the host's time of these steps;
// kNotFound if there are none.
Result<Interval> KeepSteps(const StepWindow& window, std::vector<Step>* host);

// Keeps the events that were launched in that time or, without a known launch, began in it.
void KeepLaunched(const Interval& time, std::vector<DeviceEvent>* device);

// Keeps the spans that overlap that time.
void KeepTouching(const Interval& time, Intervals* spans);

}  // namespace longhaul::profiler
