#include "frontend/report/report_words.h"

#include "base/format.h"
#include "base/text.h"
#include "base/units.h"

namespace longhaul::frontend {
namespace {

std::string Signed(double share) {
  return (share >= 0 ? "+" : "") + Decimal(100 * share, 3) + " %";
}

}  // namespace

std::string Flops(double per_second) { return Compact(per_second) + "FLOP/s"; }

std::string LayoutText(const Report& report) {
  const proto::Job& job = report.status.job();
  std::string text = Plural(report.ranks, "worker") + ": " + Plural(job.nodes(), "node") +
                     " with " + std::to_string(job.processes_per_node()) + " each";
  if (job.maximum_nodes() > job.minimum_nodes()) {
    text += "; elastic, " + std::to_string(job.minimum_nodes()) + " to " +
            Plural(job.maximum_nodes(), "node");
  }
  return text;
}

bool HasLoss(const Report& report) {
  return report.status.tokens() > 0 || report.status.first_loss() != 0 || report.status.loss() != 0;
}

std::string LossUnit(const Report& report) {
  return report.status.tokens() > 0 ? " nats a token" : "";
}

std::string LedgerVerdict(const LedgerCheck& check) {
  const std::string numbers = "the categories sum to " + Decimal(check.sum_seconds, 3) +
                              " s, this process measured " + Decimal(check.measured_seconds, 3) +
                              " s (" + Signed(check.difference) + ")";
  return check.holds
             ? numbers
             : numbers + "; these differ by more than the " + SecondsText(check.allowed_seconds) +
                   " that the measurement allows, so the table may be wrong";
}

std::string MissedText(const Report& report) {
  return Plural(report.missed_faults.size(), "planned fault") + " did not happen (" +
         Join(report.missed_faults, "; ") + "): " + report.missed_reason;
}

std::string ErrorText(const Compared& figure) {
  if (!figure.error.has_value()) return "";
  return (*figure.error >= 0 ? "+" : "") + Decimal(100 * *figure.error, 1) + " %";
}

std::string MemoryText(double bytes) { return ToString(Bytes(static_cast<int64_t>(bytes))); }

uint64_t SnapshotsBy(const proto::JobStatus& status, proto::SnapshotWay way) {
  return way < status.snapshot_ways_size() ? status.snapshot_ways(way) : 0;
}

}  // namespace longhaul::frontend
