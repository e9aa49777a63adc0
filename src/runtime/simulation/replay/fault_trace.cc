#include "runtime/simulation/replay/fault_trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "base/text.h"
#include "runtime/simulation/replay/published.h"
#include "scheduler/traces/csv_reader.h"

namespace longhaul::runtime::simulation {
namespace {

using scheduler::CsvReader;

constexpr std::string_view kHeader = "t,cause,node,scope,silent,notice_s,repair_s";
enum Column : size_t { kAt, kCause, kNode, kScope, kSilent, kNotice, kRepairTime };
constexpr size_t kMostFaults = 100'000;
constexpr size_t kLongestCause = 40;
constexpr int64_t kLongestMs = int64_t{30} * 24 * 3600 * 1000;
constexpr Duration kFirst = std::chrono::minutes(1);  // the job has started
constexpr Duration kLast = std::chrono::minutes(11);  // before the end: the job is stopped then

constexpr std::array<std::string_view, kFaultScopes> kScopeNames = {
    "process", "device", "slow-device", "link", "node", "rack", "storage", "state", "job"};

bool IsCause(std::string_view cause) {
  return !cause.empty() && cause.size() <= kLongestCause &&
         std::all_of(cause.begin(), cause.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

Duration Milliseconds(int64_t milliseconds) { return std::chrono::milliseconds(milliseconds); }

std::string SecondsText(Duration duration) {
  const int64_t ms = duration / std::chrono::milliseconds(1);
  std::string text = std::to_string(ms / 1000);
  if (ms % 1000 == 0) return text;
  char decimals[8];
  std::snprintf(decimals, sizeof(decimals), ".%03d", static_cast<int>(ms % 1000));
  return text + decimals;
}

Result<FaultScope> ScopeIn(const CsvReader& rows) {
  const auto found = std::find(kScopeNames.begin(), kScopeNames.end(), rows.Field(kScope));
  if (found != kScopeNames.end()) return static_cast<FaultScope>(found - kScopeNames.begin());
  std::vector<std::string> names(kScopeNames.begin(), kScopeNames.end());
  return rows.Refuse(kScope, "'" + Printable(rows.Field(kScope), 40) +
                                 "' is not a scope; use one of " + Join(names, ", "));
}

// What a scope has no use for is refused instead of ignored.
Status CheckUse(const CsvReader& rows, const TracedFault& fault) {
  const FaultScope scope = fault.scope;
  const std::string name(NameOf(scope));
  const bool announced = scope == FaultScope::kNode || scope == FaultScope::kSlowDevice;
  if (fault.notice > Duration(0) && !announced) {
    return rows.Refuse(kNotice, SecondsText(fault.notice) + " for scope " + name +
                                    "; use 0: only node and slow-device are announced");
  }
  const bool restarts = scope == FaultScope::kProcess || scope == FaultScope::kStorage;
  if (fault.repair > Duration(0) && restarts) {
    return rows.Refuse(kRepairTime, SecondsText(fault.repair) + " for scope " + name +
                                        "; use 0: a restart suffices");
  }
  const bool lasts = scope == FaultScope::kNode || scope == FaultScope::kRack ||
                     scope == FaultScope::kJob || (scope == FaultScope::kState && fault.silent);
  if (fault.repair == Duration(0) && lasts) {
    return rows.Refuse(kRepairTime,
                       "0 for scope " + name + "; give the time until it is over, above 0");
  }
  if (fault.repair > Duration(0) && scope == FaultScope::kState && !fault.silent) {
    return rows.Refuse(kRepairTime, SecondsText(fault.repair) +
                                        " for scope state that is not silent; use 0: it is found "
                                        "at once");
  }
  if (fault.silent && (fault.notice > Duration(0) || scope == FaultScope::kStorage)) {
    return rows.Refuse(kSilent, "1 for a failure that announces itself (scope " + name +
                                    ", notice_s " + SecondsText(fault.notice) + "); use 0");
  }
  return Status();
}

Result<TracedFault> FaultIn(const CsvReader& rows, const TraceLimits& limits) {
  TracedFault fault;
  ASSIGN_OR_RETURN(const int64_t at_ms,
                   rows.Thousandths(kAt, limits.length / std::chrono::milliseconds(1)));
  fault.at = Milliseconds(at_ms);
  fault.cause = std::string(rows.Field(kCause));
  if (!IsCause(fault.cause)) {
    return rows.Refuse(kCause, "'" + Printable(fault.cause, 40) +
                                   "' is not a name of 1 to 40 characters of a-z, 0-9 and '-'");
  }
  ASSIGN_OR_RETURN(const int64_t node, rows.Whole(kNode, 1, limits.nodes));
  fault.node = static_cast<uint32_t>(node);
  ASSIGN_OR_RETURN(fault.scope, ScopeIn(rows));
  ASSIGN_OR_RETURN(const int64_t silent, rows.Whole(kSilent, 0, 1));
  fault.silent = silent == 1;
  ASSIGN_OR_RETURN(const int64_t notice_ms, rows.Thousandths(kNotice, kLongestMs));
  fault.notice = Milliseconds(notice_ms);
  ASSIGN_OR_RETURN(const int64_t repair_ms, rows.Thousandths(kRepairTime, kLongestMs));
  fault.repair = Milliseconds(repair_ms);
  RETURN_IF_ERROR(CheckUse(rows, fault));
  return fault;
}

// As many times in (first, last) as wanted, in order.
std::vector<Duration> TimesOf(const TraceOptions& options, size_t wanted, Random& random) {
  const double first = ToSeconds(kFirst);
  const double span = ToSeconds(options.length - kLast) - first;
  std::vector<double> seconds;
  if (options.weibull == 1) {
    for (size_t i = 0; i < wanted; ++i) seconds.push_back(first + span * random.Uniform());
  } else {
    // Gaps of a renewal process, scaled so that the count is the wanted one.
    double sum = 0;
    for (size_t i = 0; i <= wanted; ++i) {
      sum += std::pow(random.Exponential(1), 1 / options.weibull);
      seconds.push_back(sum);
    }
    for (double& at : seconds) at = first + span * at / sum;
    seconds.pop_back();
  }
  std::sort(seconds.begin(), seconds.end());
  std::vector<Duration> times;
  for (const double at : seconds) times.push_back(Milliseconds(std::llround(at * 1000)));
  return times;
}

size_t ShareOf(double share, size_t count) {
  return static_cast<size_t>(std::llround(share * static_cast<double>(count)));
}

// One failure of a cause. `lasting`: a restart does not cure it.
TracedFault FaultOf(const PublishedCause& cause, const TraceOptions& options, bool silent,
                    bool lasting) {
  TracedFault fault;
  fault.cause = std::string(cause.name);
  fault.silent = silent;
  fault.scope = silent ? cause.hang : cause.crash;
  const bool node = fault.scope == FaultScope::kNode;
  if (options.announced || !node) fault.notice = cause.notice;
  if (node || lasting) fault.repair = cause.repair;
  if (options.racks && (cause.name == "switch-or-cable" || cause.name == "power-supply")) {
    fault.scope = FaultScope::kRack;
    fault.silent = true;
    fault.repair = kRepair;
  }
  if (fault.repair == kRepair && options.repair > Duration(0)) fault.repair = options.repair;
  return fault;
}

// The failures without times and places: of each cause the shares are exact, not drawn.
std::vector<TracedFault> CausesOf(const TraceOptions& options) {
  const double scale = options.factor * ToSeconds(options.length) / ToSeconds(kPublishedLength);
  std::vector<TracedFault> faults;
  for (const PublishedCause& cause : kPublishedCauses) {
    const size_t count = ShareOf(scale, static_cast<size_t>(cause.count));
    const size_t silent = ShareOf(cause.silent, count);
    const bool varies = cause.persistent == kPersistent && options.persistent >= 0;
    const size_t lasting = ShareOf(varies ? options.persistent : cause.persistent, silent);
    for (size_t i = 0; i < count; ++i) {
      faults.push_back(FaultOf(cause, options, i < silent, i < lasting));
    }
  }
  return faults;
}

// A place of the gang, drawn by weight.
uint32_t DrawPlace(const TraceOptions& options, const std::vector<uint32_t>& lemons,
                   Random& random) {
  if (!lemons.empty()) {
    const double heavy = kLemonWeight * static_cast<double>(lemons.size());
    const double light = static_cast<double>(options.nodes) - static_cast<double>(lemons.size());
    if (random.Uniform() * (heavy + light) < heavy) return lemons[random.Below(lemons.size())];
  }
  return 1 + static_cast<uint32_t>(random.Below(options.nodes));
}

}  // namespace

std::string_view NameOf(FaultScope scope) { return kScopeNames[static_cast<size_t>(scope)]; }

Result<std::vector<TracedFault>> ParseFaultTrace(std::string_view text, std::string_view source,
                                                 const TraceLimits& limits) {
  std::string_view header = text.substr(0, text.find('\n'));
  if (header.ends_with('\r')) header.remove_suffix(1);
  if (header != kHeader) {
    return InvalidArgument(std::string(source) + ":1:1: the header is '" + Printable(header, 80) +
                           "', expected '" + std::string(kHeader) + "'");
  }
  const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const std::string_view name : Split(kHeader, ',')) all.emplace_back(name);
    return all;
  }();
  ASSIGN_OR_RETURN(CsvReader rows, CsvReader::Open(text, source, {names.begin(), names.end()}));
  std::vector<TracedFault> trace;
  while (rows.Next()) {
    ASSIGN_OR_RETURN(TracedFault fault, FaultIn(rows, limits));
    if (!trace.empty() && fault.at < trace.back().at) {
      return rows.Refuse(kAt, SecondsText(fault.at) + " is before the " +
                                  SecondsText(trace.back().at) +
                                  " of the line above; sort the lines by time");
    }
    if (trace.size() == kMostFaults) return rows.Refuse(kAt, "more than 100,000 failures");
    trace.push_back(std::move(fault));
  }
  RETURN_IF_ERROR(rows.status());
  return trace;
}

std::string FormatFaultTrace(const std::vector<TracedFault>& trace) {
  std::string text(kHeader);
  text += '\n';
  for (const TracedFault& fault : trace) {
    text += SecondsText(fault.at) + "," + fault.cause + "," + std::to_string(fault.node) + "," +
            std::string(NameOf(fault.scope)) + "," + (fault.silent ? "1" : "0") + "," +
            SecondsText(fault.notice) + "," + SecondsText(fault.repair) + "\n";
  }
  return text;
}

std::vector<TracedFault> GenerateFaultTrace(const TraceOptions& options, uint64_t seed) {
  CHECK(options.nodes >= 1 && options.length > kFirst + kLast);
  Random random(seed ^ 0x6c6c616d61330000u);  // other numbers than the simulation's own
  std::vector<TracedFault> trace = CausesOf(options);
  for (size_t i = trace.size(); i > 1; --i) std::swap(trace[i - 1], trace[random.Below(i)]);
  const std::vector<Duration> times = TimesOf(options, trace.size(), random);
  std::vector<uint32_t> lemons;
  const auto wanted = static_cast<size_t>(std::ceil(kLemonShare * options.nodes));
  while (options.lemons && lemons.size() < wanted) {
    const auto place = 1 + static_cast<uint32_t>(random.Below(options.nodes));
    if (std::find(lemons.begin(), lemons.end(), place) == lemons.end()) lemons.push_back(place);
  }
  for (size_t i = 0; i < trace.size(); ++i) {
    trace[i].at = times[i];
    const bool again = i > 0 && random.Uniform() < options.offenders;
    trace[i].node = again ? trace[random.Below(i)].node : DrawPlace(options, lemons, random);
  }
  return trace;
}

}  // namespace longhaul::runtime::simulation
