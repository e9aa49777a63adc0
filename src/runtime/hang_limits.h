// The limits of a command's workers that stand still, with the defaults for what a job leaves out.
#pragma once

#include "base/time.h"
#include "proto/job.pb.h"

namespace longhaul::runtime {

struct HangSettings {
  // Longer than any run.
  static constexpr Duration kForEver = std::chrono::hours(24 * 365 * 100);

  // A debugger or a person stops a process for a shorter time, as a rule.
  Duration stopped = std::chrono::seconds(30);
  // Longer than the pauses of clients that try a request again.
  Duration no_step = std::chrono::minutes(2);
  Duration idle = std::chrono::minutes(10);
};

inline HangSettings HangSettingsOf(const proto::HangLimits& limits) {
  const auto choose = [](int64_t wanted_ns, Duration standard) {
    if (wanted_ns < 0) return HangSettings::kForEver;
    return wanted_ns == 0 ? standard : Duration(wanted_ns);
  };
  const HangSettings standard;
  return {choose(limits.stopped_ns(), standard.stopped),
          choose(limits.no_step_ns(), standard.no_step), choose(limits.idle_ns(), standard.idle)};
}

}  // namespace longhaul::runtime
