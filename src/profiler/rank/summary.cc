#include "profiler/rank/summary.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <unordered_map>

#include "profiler/rank/host_time.h"
#include "profiler/rank/intervals.h"
#include "profiler/rank/ledger.h"
#include "profiler/rank/links.h"
#include "profiler/rank/operator_work.h"
#include "profiler/rank/step_window.h"
#include "profiler/read/metadata.h"

namespace longhaul::profiler {
namespace {

double DtypeBytes(std::string_view dtype) {
  if (dtype == "Float" || dtype == "Int") return 4;
  if (dtype == "Double" || dtype == "Long") return 8;
  if (dtype.starts_with("Float8") || dtype == "Byte" || dtype == "Char" || dtype == "Bool") {
    return 1;
  }
  return 2;  // BFloat16, Half
}

// The groups of a rank, from their notes.
class GroupTable {
 public:
  explicit GroupTable(const RankTrace& trace, RankSummary* summary)
      : trace_(trace), summary_(summary) {}

  // `dimension` comes from the kernel's name, where there is no note; may be empty.
  uint32_t Of(const CollectiveNote* note, std::string_view dimension) {
    if (note == nullptr) {
      return Find("", dimension.empty() ? "" : std::string(dimension) + "_parallel by kernel names",
                  {}, 0);
    }
    bool cut = false;
    std::vector<int64_t> ranks = ParseRanks(trace_.strings[note->group_ranks], &cut);
    if (cut) ranks = Rebuild(*note);
    return Find(trace_.strings[note->group_name], trace_.strings[note->group_description],
                std::move(ranks), note->group_size);
  }

 private:
  // Of a list that was cut: from start, stride and size, or from the file's list of groups.
  std::vector<int64_t> Rebuild(const CollectiveNote& note) const {
    std::vector<int64_t> ranks;
    constexpr int64_t kMaxSize = 1 << 20;
    if (note.rank_start >= 0 && note.rank_stride > 0 && note.group_size <= kMaxSize) {
      for (int64_t i = 0; i < note.group_size; ++i) {
        ranks.push_back(note.rank_start + i * note.rank_stride);
      }
      return ranks;
    }
    for (const GroupConfig& group : trace_.metadata.groups) {
      if (group.name == trace_.strings[note.group_name]) return group.ranks;
    }
    return {};
  }

  uint32_t Find(std::string_view name, std::string_view description, std::vector<int64_t> ranks,
                int64_t size) {
    std::string key = std::string(name) + '\n' + std::string(description);
    for (const int64_t rank : ranks) key += ' ' + std::to_string(rank);
    const auto [place, fresh] =
        known_.emplace(std::move(key), static_cast<uint32_t>(summary_->groups.size()));
    if (fresh) {
      if (!ranks.empty()) size = static_cast<int64_t>(ranks.size());
      summary_->groups.push_back(
          {std::string(name), std::string(description), std::move(ranks), size});
    }
    return place->second;
  }

  const RankTrace& trace_;
  RankSummary* const summary_;
  std::map<std::string, uint32_t> known_;
};

Collective MakeCollective(const RankTrace& trace, const DeviceEvent& event, KernelNames& names,
                          GroupTable* groups) {
  Collective collective;
  collective.start_ns = event.begin_ns;
  collective.end_ns = event.end_ns;
  collective.phase = event.phase;
  collective.launch_ns = LaunchTime(event);
  const Event row = trace.events[event.row];
  const CollectiveNote* note =
      row.category == Category::kKernel && row.detail != 0 ? &trace.notes[row.detail - 1] : nullptr;
  collective.track = row.track;
  collective.group = groups->Of(note, names.Of(row.name).dimension);
  collective.kind =
      KindOfCollective(note == nullptr ? "" : trace.strings[note->name], trace.strings[row.name]);
  if (note == nullptr) return collective;
  collective.elements = std::max(note->in_elements, note->out_elements);
  collective.bytes = static_cast<int64_t>(static_cast<double>(collective.elements) *
                                          DtypeBytes(trace.strings[note->dtype]));
  collective.sequence = note->sequence;
  collective.cpu_ns = note->cpu_ns;
  collective.peer =
      collective.kind == CollectiveKind::kReceive ? note->source_rank : note->destination_rank;
  return collective;
}

// Fills in when each collective could have begun, and whether computation waited for its end.
void FindReady(const std::vector<DeviceEvent>& device, const std::vector<int32_t>& collective_of,
               std::vector<Collective>* collectives) {
  std::vector<size_t> order(device.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&device](size_t a, size_t b) {
    return device[a].launch_begin_ns < device[b].launch_begin_ns;
  });
  constexpr int64_t kTouchNs = 1'000;  // what begins so much before an end began at it
  int64_t coming = INT64_MAX;          // begin of the computation launched next
  for (size_t place = order.size(); place-- > 0;) {
    const size_t i = order[place];
    if (collective_of[i] >= 0) {
      Collective& call = (*collectives)[static_cast<size_t>(collective_of[i])];
      call.passed = coming < call.end_ns - kTouchNs;
    } else if (device[i].kind != KernelClass::kCopy) {
      coming = device[i].begin_ns;
    }
  }
  int64_t computed = INT64_MIN;
  for (const size_t i : order) {
    const DeviceEvent& event = device[i];
    if (collective_of[i] < 0) {
      computed = std::max(computed, event.end_ns);
      continue;
    }
    Collective& call = (*collectives)[static_cast<size_t>(collective_of[i])];
    call.ready_ns = std::min(call.start_ns, std::max(computed, event.launch_end_ns));
  }
}

// Steps on the device: from each step's first kernel to the next one's.
std::vector<Step> DeviceSteps(const std::vector<DeviceEvent>& device, std::vector<Step> host) {
  if (device.empty()) return {};
  int64_t last = device.front().end_ns;
  for (const DeviceEvent& event : device) last = std::max(last, event.end_ns);
  std::vector<Step> steps;
  std::vector<int64_t> first(host.size(), INT64_MAX);
  std::vector<int64_t> end(host.size(), INT64_MIN);
  for (const DeviceEvent& event : device) {
    if (!event.launched) continue;
    auto after = std::upper_bound(host.begin(), host.end(), event.launch_begin_ns,
                                  [](int64_t t, const Step& s) { return t < s.begin_ns; });
    if (after == host.begin()) continue;
    const auto step = static_cast<size_t>(std::prev(after) - host.begin());
    if (event.launch_begin_ns >= host[step].end_ns) continue;
    first[step] = std::min(first[step], event.begin_ns);
    end[step] = std::max(end[step], event.end_ns);
  }
  for (size_t i = 0; i < host.size(); ++i) {
    if (first[i] == INT64_MAX) continue;
    if (!steps.empty() && first[i] <= steps.back().begin_ns) continue;
    if (!steps.empty()) steps.back().end_ns = first[i];
    steps.push_back({std::move(host[i].name), first[i], end[i]});
  }
  // The first step begins with its annotation, unless the device was busy with what came before.
  if (!steps.empty() && !host.empty() && first[0] == steps[0].begin_ns) {
    int64_t busy = host[0].begin_ns;
    for (const DeviceEvent& event : device) {
      if (event.begin_ns < first[0]) busy = std::max(busy, event.end_ns);
    }
    steps[0].begin_ns = std::min(first[0], busy);
  }
  if (steps.empty()) steps.push_back({"whole trace", device.front().begin_ns, last});
  return steps;
}

void TotalKernels(const RankTrace& trace, const std::vector<DeviceEvent>& device,
                  RankSummary* summary) {
  std::unordered_map<uint32_t, size_t> operators;  // by external id
  for (size_t i = 0; i < trace.events.size(); ++i) {
    if (trace.events.category(i) != Category::kCpuOp) continue;
    if (const uint32_t id = trace.events[i].external; id != 0) operators.emplace(id, i);
  }
  std::map<std::pair<uint32_t, KernelClass>, KernelTotal> kernels;
  std::map<std::pair<uint32_t, uint32_t>, OperatorTotal> totals;
  std::vector<bool> counted(trace.events.size());
  for (const DeviceEvent& event : device) {
    const Event row = trace.events[event.row];
    const int64_t length = event.end_ns - event.begin_ns;
    KernelTotal& kernel = kernels[{row.name, event.kind}];
    kernel.kind = event.kind;
    if (!event.continued) ++kernel.count;
    kernel.total_ns += length;
    if (event.kind == KernelClass::kCommunication || event.kind == KernelClass::kCopy) continue;
    summary->kernel_ns += length;
    const auto found = operators.find(row.external);
    if (row.external == 0 || found == operators.end()) continue;
    summary->mapped_ns += length;
    const Event op = trace.events[found->second];
    OperatorTotal& total = totals[{op.name, op.detail}];
    total.total_ns += length;
    if (counted[found->second]) continue;
    counted[found->second] = true;
    ++total.count;
    const Work work = WorkOf(trace.strings[op.name], trace.strings[op.detail]);
    total.flops += work.flops;
    total.bytes += work.bytes;
  }
  for (auto& [key, kernel] : kernels) {
    kernel.name = trace.strings[key.first];
    summary->kernels.push_back(std::move(kernel));
  }
  for (auto& [key, total] : totals) {
    total.name = trace.strings[key.first];
    total.shapes = trace.strings[key.second];
    summary->operators.push_back(std::move(total));
  }
  const auto longer = [](const auto& a, const auto& b) {
    return a.total_ns != b.total_ns ? a.total_ns > b.total_ns : a.name < b.name;
  };
  std::stable_sort(summary->kernels.begin(), summary->kernels.end(), longer);
  std::stable_sort(summary->operators.begin(), summary->operators.end(), longer);
}

// "[4.0,8.0,0.0]" as numbers; what can't be read is 0.
std::array<double, 3> SizesOf(std::string_view text) {
  std::array<double, 3> sizes{};
  size_t at = 0;
  for (double& size : sizes) {
    at = text.find_first_of("0123456789", at);
    if (at == text.npos) break;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), size);
    if (error != std::errc()) break;
    at = static_cast<size_t>(end - text.data());
  }
  return sizes;
}

void TakeModelOperators(const RankTrace& trace, const std::vector<Step>& host, int64_t end_ns,
                        RankSummary* summary) {
  for (size_t i = 0; i < trace.events.size(); ++i) {
    if (trace.events.category(i) != Category::kUserAnnotation) continue;
    const Event event = trace.events[i];
    if (event.detail == 0 || event.duration_ns < 0 || event.start_ns >= end_ns) continue;
    const OperatorNote& note = trace.operator_notes[event.detail - 1];
    ModelOperator op;
    const auto after =
        std::upper_bound(host.begin(), host.end(), event.start_ns,
                         [](int64_t time, const Step& step) { return time < step.begin_ns; });
    if (after == host.begin()) continue;
    op.step = static_cast<size_t>(after - host.begin()) - 1;
    op.name = trace.strings[event.name];
    op.kind = trace.strings[note.kind];
    op.sizes = SizesOf(trace.strings[note.sizes]);
    op.backward = note.backward;
    op.layer = note.layer;
    op.micro_batch = note.micro_batch;
    op.begin_ns = event.start_ns;
    op.wall_ns = event.duration_ns;
    op.cpu_ns = note.cpu_ns;
    summary->model_operators.push_back(std::move(op));
  }
  std::stable_sort(
      summary->model_operators.begin(), summary->model_operators.end(),
      [](const ModelOperator& a, const ModelOperator& b) { return a.begin_ns < b.begin_ns; });
  std::vector<int64_t> between;
  for (size_t i = 1; i < host.size(); ++i) {
    between.push_back(std::max<int64_t>(0, host[i].begin_ns - host[i - 1].end_ns));
  }
  if (between.empty()) return;
  std::sort(between.begin(), between.end());
  summary->between_steps_ns = between[between.size() / 2];
}

}  // namespace

std::string_view ToString(Phase phase) {
  constexpr std::array<std::string_view, kPhases> kNames = {
      "forward", "backward", "weights' gradients", "optimizer", "unknown"};
  return kNames[static_cast<size_t>(phase)];
}

std::string_view ToString(Spent spent) {
  constexpr std::array<std::string_view, kSpentKinds> kNames = {
      "matrix products", "attention",   "norms",         "activations",
      "optimizer",       "elementwise", "other compute", "exposed communication",
      "copies",          "host",        "input",         "kernel gaps",
      "dependencies"};
  return kNames[static_cast<size_t>(spent)];
}

Result<RankSummary> Summarize(const RankTrace& trace, const SummaryOptions& options) {
  RankSummary summary;
  summary.path = trace.path;
  summary.metadata = trace.metadata;
  summary.report = trace.report;
  summary.trace_memory_bytes = trace.memory_bytes();
  KernelNames names(options.kernels, trace.strings);
  std::vector<DeviceEvent> device = LinkDevice(trace, names);
  std::vector<Step> host = HostSteps(trace, options.step_annotation);
  Interval kept = {INT64_MIN, INT64_MAX};
  if (!(options.steps == StepWindow())) {
    const Result<Interval> time = KeepSteps(options.steps, &host);
    if (!time.ok()) return time.status().WithContext(trace.path);
    kept = *time;
    KeepLaunched(kept, &device);
  }
  TakeModelOperators(trace, host, kept.end, &summary);
  summary.steps = DeviceSteps(device, std::move(host));
  GroupTable groups(trace, &summary);
  std::vector<int32_t> collective_of(device.size(), -1);
  Intervals communication;
  for (size_t i = 0; i < device.size(); ++i) {
    if (device[i].kind != KernelClass::kCommunication) continue;
    collective_of[i] = static_cast<int32_t>(summary.collectives.size());
    summary.collectives.push_back(MakeCollective(trace, device[i], names, &groups));
    communication.push_back({device[i].begin_ns, device[i].end_ns});
  }
  FindReady(device, collective_of, &summary.collectives);
  TotalKernels(trace, device, &summary);
  if (summary.steps.empty()) return summary;
  const Interval window = {summary.steps.front().begin_ns, summary.steps.back().end_ns};
  summary.communication_ns = Length(Intersection(Union(std::move(communication)), {window}));
  summary.host_waits = HostWaits(trace, device);
  summary.host_input = InputTime(trace);
  KeepTouching(kept, &summary.host_waits);
  KeepTouching(kept, &summary.host_input);
  summary.segments = CutSegments(device, collective_of, summary.host_input, window);
  summary.segments.shrink_to_fit();
  summary.collectives.shrink_to_fit();
  summary.model_operators.shrink_to_fit();
  return summary;
}

RankSummary Summarize(const RankTrace& trace) { return *Summarize(trace, SummaryOptions()); }

size_t MemoryOf(const RankSummary& summary) {
  return summary.segments.size() * sizeof(Segment) +
         summary.collectives.size() * sizeof(Collective) +
         summary.model_operators.size() * sizeof(ModelOperator) +
         (summary.host_waits.size() + summary.host_input.size()) * sizeof(Interval) +
         summary.steps.size() * sizeof(Step);
}

}  // namespace longhaul::profiler
