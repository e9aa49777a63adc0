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

// The phases of the host's threads over time. A pass of weights' gradients is annotated on the
// thread that requests it, while autograd runs on another one: it applies to the backward of all
// threads.
class HostPhases {
 public:
  // The phase of a name is computed once for each string, not for each event: traces repeat few
  // names many times.
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

// Spans around operators and dispatchers of collectives, which compute nothing themselves.
bool IsWrapper(std::string_view name) {
  constexpr auto kWrappers = std::to_array<std::string_view>(
      {"autograd::engine", "ProfilerStep", "Optimizer.", "DistributedDataParallel.",
       "c10d::", "_c10d_functional::", "record_param_comms"});
  return std::any_of(kWrappers.begin(), kWrappers.end(),
                     [name](std::string_view wrapper) { return name.starts_with(wrapper); });
}

bool IsHostCollective(std::string_view name) {
  return name.starts_with("gloo:") || name.starts_with("mpi:") || name.starts_with("nccl:");
}

// Whether the event is an operator that ran on the CPU. In a trace without categories every event
// that is not a wrapper counts as one.
bool IsHostOperator(const Event& event, std::string_view name) {
  return (event.category == Category::kCpuOp || event.category == Category::kOther) &&
         !IsWrapper(name);
}

// The self time of operators of one thread after the other, in pieces.
class SelfTime {
 public:
  // A piece of the time of the operator at `row`, the first one or a further one.
  struct Piece {
    size_t row = 0;
    Interval time;
    KernelClass kind = KernelClass::kOther;
    bool continued = false;
  };

  SelfTime(const RankTrace& trace, KernelNames& names) : trace_(trace), names_(names) {}

  // `operators` are rows with a duration; their order changes.
  // Sorted by thread, begin, and the longer one first, so that an operator comes before those
  // inside it. A stack then gives each nanosecond to the innermost open operator.
  std::vector<Piece> Of(std::vector<size_t> operators) {
    const EventTable& events = trace_.events;
    std::sort(operators.begin(), operators.end(), [&events](size_t a, size_t b) {
      if (events.track(a) != events.track(b)) return events.track(a) < events.track(b);
      if (events.start_ns(a) != events.start_ns(b)) return events.start_ns(a) < events.start_ns(b);
      const int64_t end_a = events[a].end_ns(), end_b = events[b].end_ns();
      return end_a != end_b ? end_a > end_b : a < b;
    });
    for (const size_t row : operators) {
      if (!open_.empty() && events.track(open_.back().row) != events.track(row)) {
        Until(INT64_MAX);
      }
      const int64_t begin = events.start_ns(row);
      Until(begin);
      if (!open_.empty()) {
        if (MayBeAnnotation(open_.back().row)) open_.back().counts = false;
        Take(&open_.back(), begin);
      }
      now_ = open_.empty() ? begin : std::max(now_, begin);
      Open(row);
    }
    Until(INT64_MAX);
    return std::move(pieces_);
  }

 private:
  struct Operator {
    size_t row = 0;
    int64_t end = 0;
    KernelClass kind = KernelClass::kOther;
    bool has_class = false;  // its own, or that of an operator around it
    bool counts = true;
    bool taken = false;
  };

  // A span of a plain Chrome trace (that of PyTorch's own profiler up to 1.13, without Kineto) has
  // no category. Around others it is an operator only if its name is qualified, as "aten::mm" is.
  bool MayBeAnnotation(size_t row) const {
    const EventTable& events = trace_.events;
    return events.category(row) == Category::kOther &&
           trace_.strings[events.name(row)].find("::") == std::string_view::npos;
  }

  void Open(size_t row) {
    const KernelMatch& match = names_.Of(trace_.events.name(row));
    Operator op;
    op.row = row;
    op.end = trace_.events[row].end_ns();
    if (match.known && !match.host) {
      op.kind = match.kind;
      op.has_class = true;
    } else if (!open_.empty() && open_.back().has_class) {
      op.kind = open_.back().kind;
      op.has_class = true;
    } else {
      op.counts = !match.host;
    }
    open_.push_back(op);
  }

  // Closes what ends until `time`. Operators that overlap without one being inside the other come
  // from rounding and damage: each nanosecond counts once.
  void Until(int64_t time) {
    while (!open_.empty() && open_.back().end <= time) {
      Take(&open_.back(), open_.back().end);
      open_.pop_back();
    }
  }

  // Gives the time up to `end` to the operator.
  void Take(Operator* op, int64_t end) {
    if (op->counts && (end > now_ || (!op->taken && end >= op->end))) {
      pieces_.push_back({op->row, {std::min(now_, end), end}, op->kind, op->taken});
      op->taken = true;
    }
    now_ = std::max(now_, end);
  }

  const RankTrace& trace_;
  KernelNames& names_;
  std::vector<Operator> open_;  // each inside the one before it
  int64_t now_ = 0;             // up to which the thread's time is given away
  std::vector<Piece> pieces_;
};

// Of a trace without a device: what the processor itself computed, and the collectives of its own
// threads.
std::vector<SelfTime::Piece> HostWork(const RankTrace& trace, KernelNames& names) {
  const EventTable& events = trace.events;
  std::vector<size_t> operators;
  std::vector<SelfTime::Piece> collectives;
  for (size_t i = 0; i < events.size(); ++i) {
    if (events.duration_ns(i) < 0) continue;
    const Event event = events[i];
    const std::string_view name = trace.strings[event.name];
    if (IsHostSpan(event.category) && IsHostCollective(name)) {
      collectives.push_back(
          {i, {event.start_ns, event.end_ns()}, names.ClassOf(event), /*continued=*/false});
    } else if (IsHostOperator(event, name)) {
      operators.push_back(i);
    }
  }
  std::vector<SelfTime::Piece> work = SelfTime(trace, names).Of(std::move(operators));
  work.insert(work.end(), collectives.begin(), collectives.end());
  return work;
}

// On a processor an operator is its own launch.
std::vector<DeviceEvent> LinkHostWork(const RankTrace& trace, KernelNames& names) {
  const HostPhases phases(trace);
  std::vector<DeviceEvent> device;
  for (const SelfTime::Piece& piece : HostWork(trace, names)) {
    const uint32_t track = trace.events.track(piece.row);
    DeviceEvent linked;
    linked.begin_ns = linked.launch_begin_ns = linked.launch_end_ns = piece.time.begin;
    linked.end_ns = piece.time.end;
    linked.row = piece.row;
    linked.kind = piece.kind;
    linked.launched = true;
    linked.continued = piece.continued;
    if (phases.Known(track)) linked.phase = phases.Of(track, piece.time.begin);
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

std::vector<DeviceEvent> LinkDevice(const RankTrace& trace, KernelNames& names) {
  const EventTable& events = trace.events;
  std::unordered_map<uint32_t, size_t> launches;
  for (size_t i = 0; i < events.size(); ++i) {
    const Category category = events.category(i);
    if (category != Category::kRuntime && category != Category::kDriver) continue;
    const Event event = events[i];
    // The first launch of a correlation counts: emplace keeps it.
    if (event.correlation != 0 && event.duration_ns >= 0) launches.emplace(event.correlation, i);
  }
  const HostPhases phases(trace);
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
                      : names.ClassOf(event);
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
  if (device.empty()) device = LinkHostWork(trace, names);
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
      const bool named = ContainsFolded(name, "dataloader") || ContainsFolded(name, "data_load") ||
                         ContainsFolded(name, "next_batch");
      is_input = named ? 1 : 0;
    }
    if (is_input != 0) input.push_back({trace.events.start_ns(i), trace.events[i].end_ns()});
  }
  return Union(std::move(input));
}

}  // namespace longhaul::profiler
