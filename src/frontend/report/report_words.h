// The phrases that the Markdown report and the terminal's summary share. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "frontend/report/report.h"
#include "proto/events.pb.h"

namespace longhaul::frontend {

// For figures of a run whose steps are unknown. A script may report its steps through
// include/longhaul.h, or print them (--step-pattern).
inline constexpr const char* kStepless = "not reported by the command";

std::string Flops(double per_second);
std::string LayoutText(const Report& report);
bool HasLoss(const Report& report);
// The unit of the loss with a space before it; empty where it is unknown.
std::string LossUnit(const Report& report);
std::string LedgerVerdict(const LedgerCheck& check);
std::string MissedText(const Report& report);
// The error of a prediction in percent; empty where nothing was measured.
std::string ErrorText(const Compared& figure);
std::string MemoryText(double bytes);
// The number of complete snapshots of that kind.
uint64_t SnapshotsBy(const proto::JobStatus& status, proto::SnapshotWay way);

}  // namespace longhaul::frontend
