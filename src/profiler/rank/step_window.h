// Some of a run's steps, one after another: those that somebody asks for, or as many as memory
// holds.
//
// A rank's part of the window is what its host launched from the first one's begin to the begin of
// the step behind the last, as in a trace that was recorded for these steps alone. So every member
// of a group has the same calls in it, whenever they ran.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "profiler/rank/intervals.h"
#include "profiler/rank/links.h"

namespace longhaul::profiler {

// Of each step: the number at the end of its name ("ProfilerStep#12"), or its place from 0 where
// one has none or they don't grow.
std::vector<int64_t> StepNumbers(const std::vector<Step>& steps);

// "20-29", or one number.
Result<StepWindow> ParseStepWindow(std::string_view text);

// Leaves the steps of the host that lie in the window. Returns the host's time that is theirs;
// kNotFound if none is.
Result<Interval> KeepSteps(const StepWindow& window, std::vector<Step>* host);

// Leaves what was launched in that time or, where no launch is told, began in it.
void KeepLaunched(const Interval& time, std::vector<DeviceEvent>* device);

// Leaves the spans that reach into that time.
void KeepTouching(const Interval& time, Intervals* spans);

}  // namespace longhaul::profiler
