#include "profiler/rank/links.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace longhaul::profiler {
namespace {

bool ContainsFolded(std::string_view text, std::string_view lower) {
  const auto same = [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? a + ('a' - 'A') : a) == b;
  };
  return std::search(text.begin(), text.end(), lower.begin(), lower.end(), same) != text.end();
}

bool IsHostSpan(Category category) {
  return category == Category::kCpuOp || category == Category::kUserAnnotation ||
         category == Category::kOther;
}

// The kind of "PP:2W0", the annotation that torch.distributed.pipelining puts around an action:
// stage, kind, micro-batch. Empty for another name.
std::string_view PipeliningAction(std::string_view name) {
  if (!name.starts_with("PP:")) return "";
  constexpr std::string_view kDigits = "0123456789";
  const size_t begin = name.find_first_not_of(kDigits, 3);
  if (begin == name.npos || begin == 3) return "";
  return name.substr(begin, name.find_first_of(kDigits, begin) - begin);
}

Phase PhaseOfName(std::string_view name) {
  if (const std::string_view action = PipeliningAction(name); !action.empty()) {
    return action == "W"                    ? Phase::kWeights
           : action == "I" || action == "B" ? Phase::kBackward
                                            : Phase::kUnknown;
  }
  if (name.starts_with("autograd::engine::evaluate_function")) return Phase::kBackward;
  if (name.starts_with("aten::") || name.starts_with("nccl:")) return Phase::kUnknown;
  if (ContainsFolded(name, "optimizer")) return Phase::kOptimizer;
  for (const char* weights : {"backward_weight", "weight_backward", "weight_grad", "weightgrad"}) {
    if (ContainsFolded(name, weights)) return Phase::kWeights;
  }
  if (ContainsFolded(name, "backward") && !name.starts_with("autograd::")) return Phase::kBackward;
  return Phase::kUnknown;
}

bool Covers(const Intervals& set, int64_t time) {
  auto after = std::upper_bound(set.begin(), set.end(), time,
                                [](int64_t t, const Interval& i) { return t < i.begin; });
  return after != set.begin() && time < std::prev(after)->end;
}

// When the host's threads were in which phase. A pass of weights' gradients is annotated on the
// thread that asks for it, while autograd runs on its own: it holds for the backward of all
// threads.
class HostPhases {
 public:
  explicit HostPhases(const RankTrace& trace) : threads_(trace.tracks.size()) {
    std::vector<int8_t> known(trace.strings.size(), -1);
    const EventTable& events = trace.events;
    for (size_t i = 0; i < events.size(); ++i) {
      if (!IsHostSpan(events.category(i)) || events.duration_ns(i) <= 0) continue;
      int8_t& phase = known[events.name(i)];
      if (phase < 0) phase = static_cast<int8_t>(PhaseOfName(trace.strings[events.name(i)]));
      const Interval span = {events.start_ns(i), events[i].end_ns()};
      Thread& thread = threads_[events.track(i)];
      switch (static_cast<Phase>(phase)) {
        case Phase::kWeights:
          weights_.push_back(span);
          [[fallthrough]];
        case Phase::kBackward:
          thread.backward.push_back(span);
          break;
        case Phase::kOptimizer:
          thread.optimizer.push_back(span);
          break;
        default:
          break;
      }
    }
    weights_ = Union(std::move(weights_));
    for (Thread& thread : threads_) {
      thread.backward = Union(std::move(thread.backward));
      thread.optimizer = Union(std::move(thread.optimizer));
    }
  }

  bool Known(uint32_t track) const {
    return !threads_[track].backward.empty() || !threads_[track].optimizer.empty();
  }
  Phase Of(uint32_t track, int64_t time) const {
    const Thread& thread = threads_[track];
    if (Covers(thread.optimizer, time)) return Phase::kOptimizer;
    if (!Covers(thread.backward, time)) return Phase::kForward;
    return Covers(weights_, time) ? Phase::kWeights : Phase::kBackward;
  }

 private:
  struct Thread {
    Intervals backward;
    Intervals optimizer;
  };
  std::vector<Thread> threads_;
  Intervals weights_;
};

// Spans around operators, which compute nothing themselves.
bool IsWrapper(std::string_view name) {
  constexpr auto kWrappers = std::to_array<std::string_view>(
      {"autograd::engine", "ProfilerStep", "Optimizer.", "DistributedDataParallel."});
  return std::any_of(kWrappers.begin(), kWrappers.end(),
                     [name](std::string_view wrapper) { return name.starts_with(wrapper); });
}

bool IsHostCollective(std::string_view name) {
  return name.starts_with("gloo:") || name.starts_with("mpi:") || name.starts_with("nccl:");
}

// Of a trace without a device: what the processor itself computed, its innermost operators, and the
// collectives of its own threads.
std::vector<size_t> HostWork(const RankTrace& trace) {
  const EventTable& events = trace.events;
  std::vector<size_t> operators;
  std::vector<size_t> work;
  for (size_t i = 0; i < events.size(); ++i) {
    if (events.duration_ns(i) < 0) continue;
    const Category category = events.category(i);
    const std::string_view name = trace.strings[events.name(i)];
    if (IsHostSpan(category) && IsHostCollective(name)) {
      work.push_back(i);
    } else if ((category == Category::kCpuOp || category == Category::kOther) && !IsWrapper(name)) {
      operators.push_back(i);
    }
  }
  std::sort(operators.begin(), operators.end(), [&events](size_t a, size_t b) {
    if (events.track(a) != events.track(b)) return events.track(a) < events.track(b);
    if (events.start_ns(a) != events.start_ns(b)) return events.start_ns(a) < events.start_ns(b);
    const int64_t end_a = events[a].end_ns(), end_b = events[b].end_ns();
    return end_a != end_b ? end_a > end_b : a < b;
  });
  for (size_t i = 0; i < operators.size(); ++i) {
    const size_t row = operators[i];
    const bool inner = i + 1 == operators.size() ||
                       events.track(operators[i + 1]) != events.track(row) ||
                       events.start_ns(operators[i + 1]) >= events[row].end_ns();
    if (inner) work.push_back(row);
  }
  return work;
}

std::vector<DeviceEvent> LinkHostWork(const RankTrace& trace) {
  const HostPhases phases(trace);
  ClassCache classes(trace.strings);
  std::vector<DeviceEvent> device;
  for (const size_t row : HostWork(trace)) {
    const Event event = trace.events[row];
    DeviceEvent linked;
    linked.begin_ns = linked.launch_begin_ns = linked.launch_end_ns = event.start_ns;
    linked.end_ns = event.end_ns();
    linked.row = row;
    linked.kind = classes.Of(event);
    linked.launched = true;
    if (phases.Known(event.track)) linked.phase = phases.Of(event.track, event.start_ns);
    device.push_back(linked);
  }
  return device;
}

void SortByStart(std::vector<DeviceEvent>* device) {
  std::sort(device->begin(), device->end(), [](const DeviceEvent& a, const DeviceEvent& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.row < b.row;
  });
}

}  // namespace

std::vector<DeviceEvent> LinkDevice(const RankTrace& trace) {
  const EventTable& events = trace.events;
  std::unordered_map<uint32_t, size_t> launches;
  for (size_t i = 0; i < events.size(); ++i) {
    const Category category = events.category(i);
    if (category != Category::kRuntime && category != Category::kDriver) continue;
    const Event event = events[i];
    if (event.correlation != 0 && event.duration_ns >= 0) launches.emplace(event.correlation, i);
  }
  const HostPhases phases(trace);
  ClassCache classes(trace.strings);
  std::vector<DeviceEvent> device;
  for (size_t i = 0; i < events.size(); ++i) {
    if (!IsDevice(events.category(i)) || events.duration_ns(i) < 0) continue;
    const Event event = events[i];
    DeviceEvent linked;
    linked.begin_ns = linked.launch_begin_ns = linked.launch_end_ns = event.start_ns;
    linked.end_ns = event.end_ns();
    linked.row = i;
    linked.kind = event.detail != 0 && event.category == Category::kKernel
                      ? KernelClass::kCommunication
                      : classes.Of(event);
    const auto launch = launches.find(event.correlation);
    if (launches.empty() && phases.Known(event.track)) {
      linked.launched = true;
      linked.phase = phases.Of(event.track, event.start_ns);
    } else if (event.correlation != 0 && launch != launches.end()) {
      const Event host = events[launch->second];
      linked.launched = true;
      linked.launch_begin_ns = host.start_ns;
      linked.launch_end_ns = host.end_ns();
      linked.launch_track = host.track;
      linked.phase = phases.Of(host.track, host.start_ns);
    }
    device.push_back(linked);
  }
  if (device.empty()) device = LinkHostWork(trace);
  SortByStart(&device);
  return device;
}

std::vector<Step> HostSteps(const RankTrace& trace, const std::string& prefix) {
  constexpr auto kUsual =
      std::to_array<std::string_view>({"ProfilerStep#", "train_step", "training_step", "step "});
  for (const std::string_view wanted :
       prefix.empty() ? std::vector<std::string_view>(kUsual.begin(), kUsual.end())
                      : std::vector<std::string_view>{prefix}) {
    std::vector<Step> steps;
    for (size_t i = 0; i < trace.events.size(); ++i) {
      const Category category = trace.events.category(i);
      if (category != Category::kUserAnnotation && category != Category::kOther) continue;
      const std::string_view name = trace.strings[trace.events.name(i)];
      if (!name.starts_with(wanted) || trace.events.duration_ns(i) <= 0) continue;
      steps.push_back({std::string(name), trace.events.start_ns(i), trace.events[i].end_ns()});
    }
    if (steps.empty()) continue;
    std::sort(steps.begin(), steps.end(),
              [](const Step& a, const Step& b) { return a.begin_ns < b.begin_ns; });
    // Of annotations inside each other the outer one counts; rounding may make neighbours overlap.
    std::vector<Step> outer;
    for (Step& step : steps) {
      if (outer.empty() || step.end_ns > outer.back().end_ns) outer.push_back(std::move(step));
    }
    return outer;
  }
  return {};
}

Intervals InputTime(const RankTrace& trace) {
  Intervals input;
  std::vector<int8_t> known(trace.strings.size(), -1);
  for (size_t i = 0; i < trace.events.size(); ++i) {
    if (!IsHostSpan(trace.events.category(i))) continue;
    int8_t& is_input = known[trace.events.name(i)];
    if (is_input < 0) {
      const std::string_view name = trace.strings[trace.events.name(i)];
      is_input = ContainsFolded(name, "dataloader") || ContainsFolded(name, "data_load") ||
                 ContainsFolded(name, "next_batch");
    }
    if (is_input != 0) input.push_back({trace.events.start_ns(i), trace.events[i].end_ns()});
  }
  return Union(std::move(input));
}

}  // namespace longhaul::profiler
