#include "profiler/report/report.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>

#include "base/text.h"
#include "base/utf8.h"
#include "profiler/report/roofline.h"

namespace longhaul::profiler {
namespace {

using OrderedJson = nlohmann::ordered_json;

[[gnu::format(printf, 1, 2)]] std::string Format(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

// Traces name devices in long forms. A name that is a part of another one (b200 of gb200, a10 of
// a100) comes after it in the list.
std::optional<spec::Device> DeviceOf(const ProfiledJob& job) {
  for (const RankSummary& rank : job.ranks) {
    std::string name = rank.metadata.device_name;
    if (Result<spec::Device> device = spec::FindDevice(name); device.ok()) return *device;
    for (char& c : name) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
    }
    for (const char* known : {"gb300", "gb200", "b300", "b200", "h200", "h100", "h800", "a800",
                              "a100", "l40s", "mi355x", "mi325x", "mi300x", "a10"}) {
      if (name.find(known) == name.npos) continue;
      for (const std::string& full : spec::DeviceNames()) {
        if (full.starts_with(known)) {
          Result<spec::Device> device = spec::FindDevice(known);
          if (!device.ok()) device = spec::FindDevice(full);
          if (device.ok()) return *device;
        }
      }
    }
  }
  return std::nullopt;
}

// Means over ranks, as shares of the job's wall time.
struct Shares {
  double compute = 0, wait = 0, wire = 0, copy = 0, host = 0, input = 0, other_idle = 0;
  double bubble = 0, late_bubble = 0;
  std::array<double, kDimensions> exposed = {};
};

// Sums over ranks divided by the sum of their wall times, so a rank with a longer trace weighs
// more.
Shares SharesOf(const Findings& findings) {
  Shares shares;
  double wall = 0;
  for (const RankTotals& totals : findings.totals) wall += Seconds(totals.wall_ns);
  if (wall <= 0) return shares;
  for (const RankTotals& totals : findings.totals) {
    const auto part = [&](Spent s) {
      return Seconds(totals.spent_ns[static_cast<size_t>(s)]) / wall;
    };
    shares.compute += Seconds(totals.compute_ns()) / wall;
    shares.copy += part(Spent::kCopy);
    shares.host += part(Spent::kHost);
    shares.input += part(Spent::kInput);
    shares.bubble += Seconds(totals.bubble_ns) / wall;
    shares.late_bubble += Seconds(totals.late_bubble_ns) / wall;
    shares.other_idle += part(Spent::kGap) + part(Spent::kDependency);
    for (size_t d = 0; d < kDimensions; ++d) {
      shares.wait += Seconds(totals.wait_ns[d]) / wall;
      shares.wire += Seconds(totals.wire_ns[d]) / wall;
      shares.exposed[d] += Seconds(totals.wait_ns[d] + totals.wire_ns[d]) / wall;
    }
  }
  return shares;
}

struct Loss {
  uint64_t damages = 0, bytes = 0, json = 0, cut = 0;
};

Loss LossOf(const ProfiledJob& job) {
  Loss loss;
  for (const RankSummary& rank : job.ranks) {
    loss.damages += rank.report.damages;
    loss.bytes += rank.report.bytes_lost;
    loss.json += rank.report.json_bytes;
    loss.cut += rank.report.cut ? 1 : 0;
  }
  return loss;
}

bool HasKernels(const ProfiledJob& job) {
  return std::any_of(job.ranks.begin(), job.ranks.end(), [](const RankSummary& rank) {
    return std::any_of(rank.kernels.begin(), rank.kernels.end(),
                       [](const KernelTotal& kernel) { return kernel.kind != KernelClass::kCopy; });
  });
}

// What is no fault and worth more than the first finding, or nullptr. A fault comes first because
// it can be put right, not because it costs most.
const Finding* LargerThanFirst(const Findings& findings) {
  for (const Finding& finding : findings.findings) {
    if (finding.fault) continue;
    const bool larger = finding.seconds_per_step > findings.findings.front().seconds_per_step;
    return larger ? &finding : nullptr;
  }
  return nullptr;
}

std::string FirstThing(const ProfiledJob& job, const Findings& findings) {
  if (!HasKernels(job)) {
    return "No kernel was traced, so where the time went is unknown.\n"
           "Do first: trace the device too: nsys profile --trace=cuda,nvtx; torch.profiler with\n"
           "          activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].\n";
  }
  if (findings.findings.empty()) {
    return "Nothing stands out: no change that we can price saves 0.1 % of the step.\n";
  }
  const auto worth = [&findings](const Finding& f) {
    return Format("%s of %s, worth %.3f ms a step (%.1f %%)",
                  std::string(ToString(f.cause)).c_str(), f.subject.c_str(),
                  f.seconds_per_step * 1e3,
                  findings.step_s > 0 ? 100 * f.seconds_per_step / findings.step_s : 0);
  };
  const Finding& f = findings.findings.front();
  std::string text = "Do first: " + worth(f) + ".\n          " + f.evidence +
                     ".\n          Try: " + std::string(RemedyOf(f.cause)) + ".\n";
  if (const Finding* larger = LargerThanFirst(findings); larger != nullptr) {
    text += "Larger:   " + worth(*larger) +
            ": as planned, no fault.\n          Try: " + std::string(RemedyOf(larger->cause)) +
            ".\n";
  }
  return text;
}

std::string Quality(const ProfiledJob& job) {
  const Loss loss = LossOf(job);
  std::string text =
      Format("Traces:   %.1f MB of JSON, %llu calls of collectives matched, %llu not",
             static_cast<double>(loss.json) / 1e6, static_cast<unsigned long long>(job.matched),
             static_cast<unsigned long long>(job.unmatched));
  if (job.clocks.hosts.size() > 1) {
    text += Format("; clocks of %zu hosts aligned within %.1f us (95 %%)", job.clocks.hosts.size(),
                   job.clocks.residual_us_p95);
  }
  text += "\n";
  if (loss.damages > 0) {
    text += Format("Damaged:  %llu places, %llu bytes passed over, %llu files cut",
                   static_cast<unsigned long long>(loss.damages),
                   static_cast<unsigned long long>(loss.bytes),
                   static_cast<unsigned long long>(loss.cut));
    for (const RankSummary& rank : job.ranks) {
      if (rank.report.kept.empty()) continue;
      const Damage& first = rank.report.kept.front();
      text += Format("; first: %s line %llu: %s", Printable(rank.path, 80).c_str(),
                     static_cast<unsigned long long>(first.line), first.what.c_str());
      break;
    }
    text += "\n";
  }
  if (!job.missing_ranks.empty()) {
    text += Format("Missing:  %zu ranks of the world have no trace, the first is %lld\n",
                   job.missing_ranks.size(), static_cast<long long>(job.missing_ranks.front()));
  }
  for (const std::string& warning : job.warnings) text += "Note:     " + warning + "\n";
  return text;
}

// How near the operators are to what they could reach, and which one loses most.
std::string RooflineText(const ProfiledJob& job, const Findings& findings, const Utilization& use) {
  const Roofline roofline = RooflineOf(job, use.device);
  if (roofline.rows.empty()) return "";
  std::string text =
      Format("Kernels:  at %.0f %% of what %s can", roofline.share() * 100, roofline.roof.c_str());
  const double runs = static_cast<double>(std::max<size_t>(findings.steps, 1) * job.ranks.size());
  if (const RooflineRow& worst = roofline.rows.front(); worst.lost_s() > 0) {
    text +=
        Format(";\n          most is lost by %s, %.3f ms a step and rank (at %.0f %%)",
               Printable(worst.name, 60).c_str(), worst.lost_s() * 1e3 / runs, worst.share() * 100);
  }
  if (roofline.kernel_s > 0 && roofline.counted_s < 0.995 * roofline.kernel_s) {
    text += Format(";\n          %.0f %% of their time has no operator with known shapes",
                   100 * (1 - roofline.counted_s / roofline.kernel_s));
  }
  return text + "\n";
}

OrderedJson RooflineJson(const ProfiledJob& job, const Utilization& use) {
  const Roofline roofline = RooflineOf(job, use.device);
  OrderedJson json;
  json["roof"] = roofline.roof;
  json["flops_per_s"] = roofline.flops_per_s;
  json["bytes_per_s"] = roofline.bytes_per_s;
  json["share_of_attainable"] = roofline.share();
  json["kernel_us"] = roofline.kernel_s * 1e6;
  json["counted_us"] = roofline.counted_s * 1e6;
  json["operators"] = OrderedJson::array();
  constexpr size_t kMost = 100;
  for (size_t i = 0; i < std::min(roofline.rows.size(), kMost); ++i) {
    const RooflineRow& row = roofline.rows[i];
    json["operators"].push_back({{"name", ToValidUtf8(row.name)},
                                 {"shapes", ToValidUtf8(row.shapes)},
                                 {"count", row.count},
                                 {"us", row.seconds * 1e6},
                                 {"attainable_us", row.attainable_s * 1e6},
                                 {"achieved_flops_per_s", row.flops / row.seconds},
                                 {"achieved_bytes_per_s", row.bytes / row.seconds},
                                 {"bound", row.by_compute ? "compute" : "memory"}});
  }
  return json;
}

OrderedJson TotalsJson(const ProfiledJob& job, const RankTotals& totals) {
  OrderedJson json;
  json["wall_us"] = static_cast<double>(totals.wall_ns) / 1e3;
  for (size_t s = 0; s < kSpentKinds; ++s) {
    json["spent_us"][std::string(ToString(static_cast<Spent>(s)))] =
        static_cast<double>(totals.spent_ns[s]) / 1e3;
  }
  for (size_t p = 0; p < kPhases; ++p) {
    json["phase_us"][std::string(ToString(static_cast<Phase>(p)))] =
        static_cast<double>(totals.phase_ns[p]) / 1e3;
  }
  for (size_t d = 0; d < kDimensions; ++d) {
    if (totals.wait_ns[d] + totals.wire_ns[d] + totals.hidden_ns[d] == 0) continue;
    OrderedJson& row = json["communication_us"][std::string(ToString(static_cast<Dimension>(d)))];
    row["exposed"] = static_cast<double>(totals.wait_ns[d] + totals.wire_ns[d]) / 1e3;
    if (totals.waiting_known(d)) {
      row["exposed_wait"] = static_cast<double>(totals.wait_ns[d]) / 1e3;
      row["exposed_wire"] = static_cast<double>(totals.wire_ns[d]) / 1e3;
    } else {
      row["exposed_wait"] = nullptr;
      row["exposed_wire"] = nullptr;
      row["unknown_because"] = WhyWaitingIsUnknown(job);
    }
    row["hidden"] = static_cast<double>(totals.hidden_ns[d]) / 1e3;
  }
  json["bubble_us"] = {{"by_schedule", static_cast<double>(totals.bubble_ns) / 1e3},
                       {"beyond_schedule", static_cast<double>(totals.late_bubble_ns) / 1e3}};
  json["last_arrivals"] = totals.last_arrivals;
  return json;
}

OrderedJson RankJson(const RankSummary& rank) {
  OrderedJson json;
  json["rank"] = rank.metadata.rank;
  json["file"] = ToValidUtf8(rank.path);
  json["steps"] = rank.steps.size();
  json["trace_memory_bytes"] = rank.trace_memory_bytes;
  json["json_bytes"] = rank.report.json_bytes;
  json["damages"] = rank.report.damages;
  json["damaged_at"] = OrderedJson::array();
  for (const Damage& damage : rank.report.kept) {
    json["damaged_at"].push_back(
        {{"byte", damage.byte}, {"line", damage.line}, {"what", ToValidUtf8(damage.what)}});
  }
  for (const KernelTotal& kernel : rank.kernels) {
    json["kernels"].push_back({{"name", ToValidUtf8(kernel.name)},
                               {"class", ToString(kernel.kind)},
                               {"count", kernel.count},
                               {"us", static_cast<double>(kernel.total_ns) / 1e3}});
  }
  // By name and shapes there may be thousands.
  constexpr size_t kMostOperators = 30;
  for (size_t i = 0; i < std::min(rank.operators.size(), kMostOperators); ++i) {
    const OperatorTotal& op = rank.operators[i];
    json["operators"].push_back({{"name", ToValidUtf8(op.name)},
                                 {"shapes", ToValidUtf8(op.shapes)},
                                 {"count", op.count},
                                 {"us", static_cast<double>(op.total_ns) / 1e3},
                                 {"flops", op.flops},
                                 {"bytes", op.bytes}});
  }
  return json;
}

}  // namespace

Utilization UtilizationOf(const ProfiledJob& job, const Findings& findings,
                          const ReportOptions& options) {
  Utilization use;
  use.device = options.device.has_value() ? options.device : DeviceOf(job);
  if (!use.device.has_value() || findings.step_s <= 0) return use;
  // What the devices could compute in a mean step, in FLOP over all ranks. Operators are summed
  // over all traced steps, hence the division by their number.
  const double available =
      use.device->half.count() * findings.step_s * static_cast<double>(job.ranks.size());
  if (available <= 0) return use;
  use.mfu = options.model_flops / available;
  double flops = 0;
  for (const RankSummary& rank : job.ranks) {
    for (const OperatorTotal& op : rank.operators) flops += op.flops;
  }
  use.hfu = flops / (available * static_cast<double>(std::max<size_t>(findings.steps, 1)));
  return use;
}

std::string SummaryText(const ProfiledJob& job, const Findings& findings,
                        const ReportOptions& options) {
  std::string text = FirstThing(job, findings);
  const Utilization use = UtilizationOf(job, findings, options);
  text += Format("Step:     %.3f ms, mean of %zu, on %zu rank%s%s", findings.step_s * 1e3,
                 findings.steps, job.ranks.size(), job.ranks.size() == 1 ? "" : "s",
                 use.device.has_value() ? (" of " + use.device->name).c_str() : "");
  if (use.mfu > 0) text += Format("; MFU %.1f %%", use.mfu * 100);
  if (use.hfu > 0) text += Format("; HFU %.1f %% (operators with shapes)", use.hfu * 100);
  const Shares s = SharesOf(findings);
  const bool unknown = AllWaitingUnknown(findings.totals);
  text += Format("\nTime:     %.1f %% compute, %.1f %% exposed communication", s.compute * 100,
                 (s.wait + s.wire) * 100);
  if (!unknown) text += Format(" (%.1f waiting, %.1f wire)", s.wait * 100, s.wire * 100);
  text += Format(
      ",\n          %.1f %% pipeline bubble, %.1f %% copies, %.1f %% host, %.1f %% input, "
      "%.1f %% other idle\n",
      (s.bubble + s.late_bubble) * 100, s.copy * 100, s.host * 100, s.input * 100,
      s.other_idle * 100);
  if (unknown) text += "Waiting:  unknown: " + WhyWaitingIsUnknown(job) + "\n";
  text += "Exposed: ";
  for (size_t d = 0; d < kDimensions; ++d) {
    if (s.exposed[d] < 0.0005) continue;
    text += Format(" %s %.1f %%", std::string(ToString(static_cast<Dimension>(d))).c_str(),
                   s.exposed[d] * 100);
  }
  text += "\n";
  if (findings.pipeline.stages.size() > 1) {
    text += Format("Pipeline: %zu stages, bubble %.1f %% of the step",
                   findings.pipeline.stages.size(), findings.pipeline.measured_bubble * 100);
    if (findings.pipeline.micro_batches > 0) {
      text += Format(" against %.1f %% of a%s %s schedule of %llu micro-batches",
                     findings.pipeline.expected_bubble * 100,
                     findings.pipeline.schedule == Schedule::kInterleaved ? "n" : "",
                     std::string(ScheduleName(findings.pipeline)).c_str(),
                     static_cast<unsigned long long>(findings.pipeline.micro_batches));
      text += Format(";\n          %.1f %% of the time is bubble that the schedule doesn't ask for",
                     s.late_bubble * 100);
    }
    text += "\n";
  }
  text += RooflineText(job, findings, use);
  constexpr size_t kMore = 3;
  for (size_t i = 1; i < findings.findings.size() && i < kMore; ++i) {
    const Finding& f = findings.findings[i];
    if (&f == LargerThanFirst(findings)) continue;  // reported above
    text +=
        Format("Then:     %s of %s, worth %.3f ms a step\n", std::string(ToString(f.cause)).c_str(),
               f.subject.c_str(), f.seconds_per_step * 1e3);
  }
  return text + Quality(job);
}

OrderedJson ReportJson(const ProfiledJob& job, const Findings& findings,
                       const ReportOptions& options) {
  OrderedJson json;
  const Utilization use = UtilizationOf(job, findings, options);
  json["step_ms"] = findings.step_s * 1e3;
  json["replayed_step_ms"] = findings.replayed_step_s * 1e3;
  json["steps"] = findings.steps;
  if (use.device.has_value()) json["device"] = use.device->name;
  if (use.mfu > 0) json["mfu"] = use.mfu;
  if (use.hfu > 0) json["hfu"] = use.hfu;
  json["kernels_traced"] = HasKernels(job);
  json["findings"] = OrderedJson::array();
  for (const Finding& f : findings.findings) {
    json["findings"].push_back({{"cause", ToString(f.cause)},
                                {"subject", f.subject},
                                {"ranks", f.ranks},
                                {"fault", f.fault},
                                {"worth_ms_per_step", f.seconds_per_step * 1e3},
                                {"evidence", f.evidence},
                                {"remedy", RemedyOf(f.cause)}});
  }
  for (const ClockReport::Host& host : job.clocks.hosts) {
    json["clocks"]["hosts"].push_back({{"name", ToValidUtf8(host.name)},
                                       {"offset_us", host.offset_us},
                                       {"drift_ppm", host.drift_ppm},
                                       {"connected", host.connected}});
  }
  json["clocks"]["residual_us_median"] = job.clocks.residual_us_median;
  json["clocks"]["residual_us_p95"] = job.clocks.residual_us_p95;
  json["clocks"]["causality_violations"] = job.clocks.causality_violations;
  json["collectives"] = {{"matched", job.matched}, {"unmatched", job.unmatched}};
  json["missing_ranks"] = job.missing_ranks;
  json["warnings"] = OrderedJson::array();
  for (const std::string& warning : job.warnings) json["warnings"].push_back(ToValidUtf8(warning));
  for (size_t i = 0; i < findings.pipeline.stages.size(); ++i) {
    const Pipeline::Stage& stage = findings.pipeline.stages[i];
    json["pipeline"]["stages"].push_back({{"ranks", stage.ranks},
                                          {"compute_ms", stage.compute_s * 1e3},
                                          {"bubble_ms", stage.bubble_s * 1e3},
                                          {"bubble_by_schedule_ms", stage.due_s * 1e3},
                                          {"bubble_beyond_schedule_ms", stage.late_s * 1e3}});
  }
  if (findings.pipeline.stages.size() > 1) {
    json["pipeline"]["schedule"] = ScheduleName(findings.pipeline);
    json["pipeline"]["chunks"] = findings.pipeline.chunks;
    json["pipeline"]["micro_batches"] = findings.pipeline.micro_batches;
    json["pipeline"]["expected_bubble"] = findings.pipeline.expected_bubble;
    json["pipeline"]["measured_bubble"] = findings.pipeline.measured_bubble;
  }
  // Pieces of the critical path are summed by rank and kind: there may be as many as kernels.
  std::map<std::pair<int64_t, std::string>, int64_t> path;
  for (const CriticalPath::Piece& piece : findings.path.pieces) {
    const std::string what = piece.spent == Spent::kExposed
                                 ? "wire " + std::string(ToString(piece.dimension))
                                 : std::string(ToString(piece.spent));
    path[{job.ranks[piece.rank].metadata.rank, what}] += piece.end_ns - piece.begin_ns;
  }
  for (const auto& [key, ns] : path) {
    json["critical_path"].push_back(
        {{"rank", key.first}, {"what", key.second}, {"us", static_cast<double>(ns) / 1e3}});
  }
  json["roofline"] = RooflineJson(job, use);
  for (size_t i = 0; i < job.ranks.size(); ++i) {
    OrderedJson rank = RankJson(job.ranks[i]);
    rank["ledger"] = TotalsJson(job, findings.totals[i]);
    json["ranks"].push_back(std::move(rank));
  }
  return json;
}

std::string CompareText(const ProfiledJob& before, const Findings& b, const ProfiledJob& after,
                        const Findings& a) {
  std::string text = Format("Step: %.3f ms before, %.3f ms after (%+.1f %%)\n", b.step_s * 1e3,
                            a.step_s * 1e3, b.step_s > 0 ? 100 * (a.step_s / b.step_s - 1) : 0);
  const auto mean = [](const Findings& f, size_t s) {
    double sum = 0;
    for (const RankTotals& totals : f.totals) sum += Seconds(totals.spent_ns[s]);
    const auto ranks = static_cast<double>(std::max<size_t>(f.totals.size(), 1));
    return sum * 1e3 / (ranks * static_cast<double>(std::max<size_t>(f.steps, 1)));
  };
  for (size_t s = 0; s < kSpentKinds; ++s) {
    const double was = mean(b, s), is = mean(a, s);
    if (was < 1e-3 && is < 1e-3) continue;
    text += Format("  %-24s %10.3f ms %10.3f ms  %+10.3f ms a step and rank\n",
                   std::string(ToString(static_cast<Spent>(s))).c_str(), was, is, is - was);
  }
  struct Moved {
    double before_ms = 0, after_ms = 0;
    uint64_t before_count = 0, after_count = 0;
  };
  std::map<std::string, Moved> kernels;
  const auto add = [&kernels](const ProfiledJob& job, const Findings& f, bool is_after) {
    const double scale = 1e-6 / (static_cast<double>(std::max<size_t>(f.steps, 1)) *
                                 static_cast<double>(job.ranks.size()));
    for (const RankSummary& rank : job.ranks) {
      for (const KernelTotal& kernel : rank.kernels) {
        Moved& change = kernels[kernel.name];
        const double ms = static_cast<double>(kernel.total_ns) * scale;
        (is_after ? change.after_ms : change.before_ms) += ms;
        (is_after ? change.after_count : change.before_count) += kernel.count;
      }
    }
  };
  add(before, b, false);
  add(after, a, true);
  // From the order of names, so that the stable sort gives the same order for equal changes.
  std::vector<std::pair<std::string, Moved>> order(kernels.begin(), kernels.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& x, const auto& y) {
    return std::abs(x.second.after_ms - x.second.before_ms) >
           std::abs(y.second.after_ms - y.second.before_ms);
  });
  text += "Kernels that changed most, a step and rank:\n";
  for (size_t i = 0; i < std::min<size_t>(order.size(), 12); ++i) {
    const auto& [name, c] = order[i];
    text += Format("  %+9.3f ms  %8.3f -> %8.3f ms  %s%s\n", c.after_ms - c.before_ms, c.before_ms,
                   c.after_ms, Printable(name, 90).c_str(),
                   c.before_count == 0  ? "  (new)"
                   : c.after_count == 0 ? "  (gone)"
                                        : "");
  }
  return text;
}

}  // namespace longhaul::profiler
