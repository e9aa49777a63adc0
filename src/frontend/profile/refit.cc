#include "frontend/profile/refit.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "planner/local/cost.h"
#include "planner/local/operator_times.h"
#include "spec/model/exchange.h"

namespace longhaul::frontend {
namespace {

using planner::Figure;
using planner::FigureKind;
using profiler::Collective;
using profiler::CollectiveKind;
using profiler::ModelOperator;
using profiler::RankSummary;

constexpr double kLeastSeconds = 1e-9;

// Quartiles of samples; sorts them.
struct Spread {
  double median = 0;
  double mean = 0;
  // Of the quartiles, as a share of the median, over the root of their number: how unsure the
  // figure is, not how unlike the samples are, which share their cores with others.
  double between = 0;
};
Spread SpreadOf(std::vector<double>& samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double share) {
    return samples[static_cast<size_t>(share * static_cast<double>(samples.size() - 1))];
  };
  const double median = std::max(kLeastSeconds, at(0.5));
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  const double mean = std::max(kLeastSeconds, sum / static_cast<double>(samples.size()));
  return {median, mean,
          (at(0.75) - at(0.25)) / median / std::sqrt(static_cast<double>(samples.size()))};
}

std::optional<FigureKind> KindOf(const std::string& name) {
  for (size_t i = 0; i < planner::kFigureKinds; ++i) {
    if (planner::FigureName(FigureKind(i)) == name) return FigureKind(i);
  }
  if (name == "product") return FigureKind::kMatmul;  // of traces written before 0.1
  return std::nullopt;
}

// The key of an operator's samples: name, kind, sizes.
using Key = std::tuple<std::string, FigureKind, std::array<double, 3>>;
struct Samples {
  std::vector<double> forward;
  std::vector<double> backward;
};

std::map<Key, Samples> SamplesOf(const profiler::ProfiledJob& job) {
  std::map<Key, Samples> all;
  for (const RankSummary& rank : job.ranks) {
    // An operator may have several spans in a micro-batch: one sample is their sum.
    std::map<std::tuple<size_t, int64_t, int64_t, bool, Key>, double> sums;
    for (const ModelOperator& op : rank.model_operators) {
      const auto kind = KindOf(op.kind);
      if (!kind) continue;
      const bool sized = std::all_of(
          op.sizes.begin(), op.sizes.begin() + static_cast<ptrdiff_t>(SizeNames(*kind).size()),
          [](double size) { return size >= 1; });
      if (!sized) continue;
      sums[{op.step, op.micro_batch, op.layer, op.backward, {op.name, *kind, op.sizes}}] +=
          static_cast<double>(op.cpu_ns) * 1e-9;
    }
    for (const auto& [place, seconds] : sums) {
      Samples& samples = all[std::get<4>(place)];
      (std::get<3>(place) ? samples.backward : samples.forward).push_back(seconds);
    }
  }
  return all;
}

void AddOperators(const profiler::ProfiledJob& job, std::vector<Figure>& figures) {
  // Operators of one kind and size are one figure, whatever their names.
  std::map<std::pair<FigureKind, std::array<double, 3>>, Samples> merged;
  for (const auto& [key, samples] : SamplesOf(job)) {
    Samples& into = merged[{std::get<1>(key), std::get<2>(key)}];
    into.forward.insert(into.forward.end(), samples.forward.begin(), samples.forward.end());
    into.backward.insert(into.backward.end(), samples.backward.begin(), samples.backward.end());
  }
  for (auto& [key, samples] : merged) {
    const bool both = HasBackward(key.first);
    if (samples.forward.empty() || (both && samples.backward.empty())) continue;
    Figure figure;
    figure.kind = key.first;
    figure.sizes = key.second;
    const Spread forward = SpreadOf(samples.forward);
    figure.forward_s = forward.median;
    figure.spread = forward.between;
    figure.repeats = static_cast<uint32_t>(samples.forward.size());
    if (both) figure.backward_s = SpreadOf(samples.backward).median;
    figures.push_back(figure);
  }
}

// By how much exchanges take more of the cores than their calls show. With more ranks than cores
// the cores are never idle in a step, and what no operator and no call used of them is the
// transport's: its thread and the kernel's network, while the ranks compute.
double BeyondCalls(const profiler::ProfiledJob& job, double cores) {
  if (static_cast<double>(job.ranks.size()) <= cores) return 1;
  double steps_s = 0, operators_s = 0, calls_s = 0;
  for (const RankSummary& rank : job.ranks) {
    for (const profiler::Step& step : rank.steps) {
      steps_s += static_cast<double>(step.end_ns - step.begin_ns) * 1e-9;
    }
    for (const ModelOperator& op : rank.model_operators) {
      if (KindOf(op.kind)) operators_s += static_cast<double>(op.cpu_ns) * 1e-9;
    }
    for (const Collective& call : rank.collectives) {
      if (call.cpu_ns > 0) calls_s += static_cast<double>(call.cpu_ns) * 1e-9;
    }
  }
  if (calls_s <= 0) return 1;
  const double used_s = steps_s * cores / static_cast<double>(job.ranks.size());
  return std::max(1.0, (used_s - operators_s) / calls_s);
}

void AddSums(const profiler::ProfiledJob& job, double cores, std::vector<Figure>& figures) {
  const double beyond = BeyondCalls(job, cores);
  std::map<std::pair<size_t, int64_t>, std::vector<double>> sums;  // by ranks and bytes
  std::map<int64_t, Samples> messages;                             // sent and received, by bytes
  for (const RankSummary& rank : job.ranks) {
    for (const Collective& call : rank.collectives) {
      if (call.cpu_ns < 0 || call.bytes < 1) continue;
      const double seconds = static_cast<double>(call.cpu_ns) * 1e-9;
      const size_t size = static_cast<size_t>(rank.groups[call.group].size);
      if (call.kind == CollectiveKind::kAllReduce && size > 1) {
        sums[{size, call.bytes}].push_back(seconds);
      } else if (call.kind == CollectiveKind::kSend) {
        messages[call.bytes].forward.push_back(seconds);
      } else if (call.kind == CollectiveKind::kReceive) {
        messages[call.bytes].backward.push_back(seconds);
      }
    }
  }
  const auto add = [&](double ranks, int64_t bytes, double cpu_s, double spread, size_t repeats) {
    Figure figure;
    figure.kind = FigureKind::kAllReduce;
    figure.sizes = {ranks, static_cast<double>(bytes), 0};
    // Two that exchange work one after the other, a ring's ranks at once as far as there are cores.
    const bool exchange = ranks == 2 && bytes <= static_cast<int64_t>(spec::kExchangedBytes);
    const double clock = exchange ? 2 : std::max(1.0, ranks / cores);
    figure.forward_s = std::max(kLeastSeconds, beyond * cpu_s * clock);
    figure.spread = spread;
    figure.repeats = static_cast<uint32_t>(repeats);
    figures.push_back(figure);
  };
  for (auto& [key, samples] : sums) {
    const Spread spread = SpreadOf(samples);
    add(static_cast<double>(key.first), key.second, spread.mean, spread.between, samples.size());
  }
  for (auto& [bytes, samples] : messages) {
    if (samples.forward.empty() || samples.backward.empty()) continue;
    // A measured sum of two ranks of that size is not mixed with an estimate from two messages.
    if (sums.contains({2, bytes})) continue;
    const Spread sent = SpreadOf(samples.forward);
    const Spread received = SpreadOf(samples.backward);
    add(2, bytes, sent.mean + received.mean, received.between, samples.backward.size());
  }
}

void AddRuntime(const profiler::ProfiledJob& job, std::vector<Figure>& figures) {
  std::vector<double> between;
  for (const RankSummary& rank : job.ranks) {
    if (rank.between_steps_ns >= 0) {
      between.push_back(static_cast<double>(rank.between_steps_ns) * 1e-9);
    }
  }
  if (between.empty()) return;
  Figure figure;
  figure.kind = FigureKind::kRuntime;
  figure.sizes = {static_cast<double>(job.ranks.size()), 0, 0};
  const Spread spread = SpreadOf(between);
  figure.forward_s = spread.median;
  figure.spread = spread.between;
  figure.repeats = static_cast<uint32_t>(between.size());
  figures.push_back(figure);
}

double BestRate(const std::vector<Figure>& figures) {
  double best = 0;
  for (const Figure& figure : figures) {
    if (figure.kind != FigureKind::kMatmul) continue;
    best =
        std::max(best, 2 * figure.sizes[0] * figure.sizes[1] * figure.sizes[2] / figure.forward_s);
  }
  return best;
}

std::string Cells(const MeasuredOperator& row) {
  std::string sizes;
  for (size_t i = 0; i < SizeNames(row.kind).size(); ++i) {
    char text[32];
    std::snprintf(text, sizeof(text), "%s%.0f", i == 0 ? "" : " x ", row.sizes[i]);
    sizes += text;
  }
  char line[200];
  std::snprintf(line, sizeof(line), "  %-18s %-9s %-20s %6zu  %10.1f  %10.1f  %+7.1f %%\n",
                row.name.c_str(), row.backward ? "backward" : "forward", sizes.c_str(), row.samples,
                1e6 * row.measured_s, 1e6 * row.predicted_s,
                100 * (row.predicted_s / row.measured_s - 1));
  return line;
}

}  // namespace

Result<planner::DeviceFile> Refit(const profiler::ProfiledJob& job, const RefitFacts& facts) {
  planner::DeviceFile file;
  const profiler::Metadata& metadata = job.ranks.front().metadata;
  AddOperators(job, file.figures);
  if (file.figures.empty()) {
    return InvalidArgument(
        "the traces name no operators of a model: --refit needs those of the built-in trainer "
        "(trace.first_step in the job file)");
  }
  const double best = BestRate(file.figures);
  if (best <= 0) return InvalidArgument("the traces hold no matrix product with its sizes");
  file.cores = static_cast<uint32_t>(std::max<int64_t>(1, metadata.devices));
  AddSums(job, file.cores, file.figures);
  AddRuntime(job, file.figures);
  const planner::DeviceFile shipped = planner::ShippedCpu(FlopsPerSecond(best));
  for (const Figure& figure : shipped.figures) {
    if (figure.kind == FigureKind::kLaunch) file.figures.push_back(figure);
  }
  file.machine = metadata.device_name;
  file.measured_at = facts.measured_at;
  file.versions = {{"longhaul", facts.version}};
  file.memory = facts.memory;
  file.quick = true;
  file.process_memory = shipped.process_memory;
  // The reader checks that the figures required by a cost model are present.
  const auto read = planner::ParseDeviceFile(ToJson(file));
  if (!read.ok()) return read.status().WithContext("the traces show too little for a device file");
  return file;
}

std::vector<MeasuredOperator> AgainstDevice(const profiler::ProfiledJob& job,
                                            const planner::DeviceFile& device) {
  const planner::OperatorTimes times(device.figures);
  std::vector<MeasuredOperator> rows;
  for (auto& [key, samples] : SamplesOf(job)) {
    const auto& [name, kind, sizes] = key;
    const planner::OperatorTime predicted = times.Of(kind, sizes);
    Samples own = samples;
    if (!own.forward.empty()) {
      rows.push_back({name, kind, sizes, false, own.forward.size(), SpreadOf(own.forward).median,
                      predicted.forward_s});
    }
    if (!own.backward.empty()) {
      rows.push_back({name, kind, sizes, true, own.backward.size(), SpreadOf(own.backward).median,
                      predicted.backward_s});
    }
  }
  return rows;
}

std::string AgainstDeviceText(const profiler::ProfiledJob& job, const planner::DeviceFile& device) {
  std::string text =
      "operators of the model, CPU time of a micro-batch (median, us), against the device file\n"
      "  operator           direction sizes                samples    measured   predicted\n";
  for (const MeasuredOperator& row : AgainstDevice(job, device)) text += Cells(row);
  const planner::OperatorTimes times(device.figures);
  std::map<int64_t, std::pair<double, double>> layers;  // measured, predicted
  std::map<int64_t, std::set<std::tuple<size_t, size_t, int64_t>>> runs;
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    std::set<std::tuple<size_t, int64_t, std::string, int64_t, bool>> seen;
    for (const ModelOperator& op : job.ranks[rank].model_operators) {
      const auto kind = KindOf(op.kind);
      if (!kind || op.layer < 0) continue;
      auto& [measured, predicted] = layers[op.layer];
      measured += static_cast<double>(op.cpu_ns) * 1e-9;
      // Once for all spans of an operator in a micro-batch.
      if (seen.emplace(op.step, op.micro_batch, op.name, op.layer, op.backward).second ||
          op.name == "residual") {
        const planner::OperatorTime time = times.Of(*kind, op.sizes);
        predicted += op.backward ? time.backward_s : time.forward_s;
      }
      runs[op.layer].emplace(rank, op.step, op.micro_batch);
    }
  }
  text += "layers, forward and backward of a micro-batch on a rank (mean, us)\n";
  for (const auto& [layer, seconds] : layers) {
    const auto count = static_cast<double>(runs[layer].size());
    char line[120];
    std::snprintf(line, sizeof(line),
                  "  layer %-4lld %10.1f measured  %10.1f predicted  %+7.1f %%\n",
                  static_cast<long long>(layer), 1e6 * seconds.first / count,
                  1e6 * seconds.second / count, 100 * (seconds.second / seconds.first - 1));
    text += line;
  }
  return text;
}

}  // namespace longhaul::frontend
