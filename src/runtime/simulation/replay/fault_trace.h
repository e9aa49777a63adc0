// Failures of one training run as data: when what fails, on which place of the gang, and how.
//
// A trace is text of comma-separated values with the header
// `t,cause,node,scope,silent,notice_s,repair_s`, one failure a line, in order of time:
//   t         seconds since the start of the run, with at most three decimals
//   cause     a name for the reader, a-z, 0-9 and '-'; losses are summed by it
//   node      the place in the gang, from 1: the machine that has this place then is struck
//   scope     what fails, see FaultScope
//   silent    1: nothing ends and no connection closes, the job only stops making progress
//   notice_s  time between the announcement at t and the failure (node, slow-device)
//   repair_s  how long the part stays broken; 0: a restart of the processes suffices
// Times are kept in milliseconds, so a trace that is written and read again is the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace longhaul::runtime::simulation {

enum class FaultScope {
  kProcess,     // a worker exits with an error; silent: it hangs. A restart suffices
  kDevice,      // the same; workers on the node fail (silent: hang) again until it is repaired
  kSlowDevice,  // the node slows all steps for notice_s, then a worker fails as with kDevice
  kLink,        // as kDevice, by the network of the collectives
  kNode,        // the machine is lost; with notice_s it is drained first
  kRack,        // as kNode, for both machines of a rack
  kStorage,     // a worker exits with an I/O error, and the next checkpoint cannot be written
  kState,       // the state is damaged: NaN at once; silent: found after repair_s
  kJob,         // a service that all workers need fails for repair_s: all stand still
};
constexpr size_t kFaultScopes = 9;

// "process", "slow-device" and so on, as in the file.
std::string_view NameOf(FaultScope scope);

struct TracedFault {
  Duration at{};
  std::string cause;
  uint32_t node = 1;
  FaultScope scope = FaultScope::kProcess;
  bool silent = false;
  Duration notice{};
  Duration repair{};

  bool operator==(const TracedFault&) const = default;
};

struct TraceLimits {
  uint32_t nodes = 0;  // places in the gang
  Duration length{};   // of the run
};

// Reads a trace. Errors are kInvalidArgument and begin with "SOURCE:LINE:COLUMN: ". Times are at
// most `limits.length`, notices and repairs at most 30 days, and there are at most 100,000 lines.
Result<std::vector<TracedFault>> ParseFaultTrace(std::string_view text, std::string_view source,
                                                 const TraceLimits& limits);

// The text that ParseFaultTrace reads. Requires times in whole milliseconds.
std::string FormatFaultTrace(const std::vector<TracedFault>& trace);

struct TraceOptions {
  uint32_t nodes = 2048;
  Duration length = std::chrono::hours(24 * 54);
  double factor = 1;       // multiplies all counts
  double weibull = 1;      // shape of the times between failures; 1: uniform times
  bool lemons = false;     // 2 % of the places fail 20 times as often
  bool racks = false;      // failures of switches and power supplies take whole racks
  double offenders = 0;    // this share strikes a place that failed before
  double persistent = -1;  // share that a restart does not cure; -1: the published table's
  bool announced = true;   // maintenance is announced
  Duration repair{};       // of broken parts; zero: the published table's
};

// The published failures of Llama 3's training (published.h): the counts are fixed, scaled by
// `factor` and by `length` over 54 days; the times, the places and the order follow from the seed.
std::vector<TracedFault> GenerateFaultTrace(const TraceOptions& options, uint64_t seed);

}  // namespace longhaul::runtime::simulation
