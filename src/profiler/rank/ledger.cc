#include "profiler/rank/ledger.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <utility>

#include "profiler/rank/host_time.h"

namespace longhaul::profiler {
namespace {

constexpr int64_t kKernelGapNs = 30'000;  // what HTA too takes for the cost of launching

// A piece of one layer's time that belongs to one event: layers are disjoint inside.
struct Piece {
  int64_t begin = 0;
  int64_t end = 0;
  size_t event = 0;
};

enum Layer { kComputeLayer, kCommunicationLayer, kCopyLayer, kLayers };

Layer LayerOf(KernelClass kind) {
  if (kind == KernelClass::kCommunication) return kCommunicationLayer;
  return kind == KernelClass::kCopy ? kCopyLayer : kComputeLayer;
}

// Makes one layer's pieces disjoint. Where events overlap, the one that ends first has the time: it
// is the one that what comes next may be waiting for.
class Flattener {
 public:
  Flattener(const std::vector<DeviceEvent>& device, Interval window)
      : device_(device), window_(window) {}

  void Add(size_t event) {
    const int64_t begin = std::max(device_[event].begin_ns, window_.begin);
    if (device_[event].end_ns <= begin || begin >= window_.end) return;
    Until(begin);
    now_ = std::max(now_, begin);
    open_.emplace(device_[event].end_ns, event);
  }
  std::vector<Piece> Finish() {
    Until(window_.end);
    return std::move(pieces_);
  }

 private:
  void Until(int64_t time) {
    while (!open_.empty() && now_ < time) {
      const auto [end, event] = open_.top();
      const int64_t stop = std::min(end, time);
      if (stop > now_) pieces_.push_back({now_, stop, event});
      now_ = std::max(now_, stop);
      if (end <= now_) open_.pop();
    }
  }

  using Open = std::pair<int64_t, size_t>;  // end, event
  const std::vector<DeviceEvent>& device_;
  const Interval window_;
  int64_t now_ = INT64_MIN;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  std::vector<Piece> pieces_;
};

std::array<std::vector<Piece>, kLayers> Flatten(const std::vector<DeviceEvent>& device,
                                                Interval window) {
  std::array<Flattener, kLayers> layers = {Flattener(device, window), Flattener(device, window),
                                           Flattener(device, window)};
  for (size_t i = 0; i < device.size(); ++i) layers[LayerOf(device[i].kind)].Add(i);
  return {layers[0].Finish(), layers[1].Finish(), layers[2].Finish()};
}

class Cutter {
 public:
  Cutter(const std::vector<DeviceEvent>& device, const std::vector<int32_t>& collective_of,
         const Intervals& input)
      : device_(device), collective_of_(collective_of), input_(input) {}

  std::vector<Segment> Cut(Interval window) {
    const auto layers = Flatten(device_, window);
    std::array<size_t, kLayers> at = {};
    int64_t now = window.begin;
    // A sweep over the three layers: the first active layer in the order computation,
    // communication, copies has the time until any piece begins or ends. Each nanosecond of the
    // window goes to exactly one segment.
    while (now < window.end) {
      int64_t next = window.end;
      const Piece* active = nullptr;
      Layer layer = kComputeLayer;
      const Piece* coming = nullptr;
      for (int l = 0; l < kLayers; ++l) {
        const auto& pieces = layers[static_cast<size_t>(l)];
        size_t& i = at[static_cast<size_t>(l)];
        while (i < pieces.size() && pieces[i].end <= now) ++i;
        if (i == pieces.size()) continue;
        const Piece& piece = pieces[i];
        if (piece.begin > now) {
          if (piece.begin < next) next = piece.begin;
          if (coming == nullptr || piece.begin < coming->begin) coming = &piece;
        } else if (active == nullptr) {
          active = &piece;
          layer = static_cast<Layer>(l);
          next = std::min(next, piece.end);
        }
      }
      if (active != nullptr) {
        Busy(now, next, *active, layer);
      } else {
        Idle(now, next, coming);
      }
      now = next;
    }
    return std::move(segments_);
  }

 private:
  void Add(int64_t begin, int64_t end, Spent spent, Phase phase, int32_t collective = -1,
           int64_t launch_ns = kNotLaunched) {
    if (begin >= end) return;
    if (!segments_.empty()) {
      Segment& last = segments_.back();
      // Adjacent pieces of one kind become one segment. The launch of the first one stays.
      if (last.spent == spent && last.phase == phase && last.collective == collective) {
        last.end_ns = end;
        return;
      }
    }
    segments_.push_back({begin, end, collective, spent, phase, launch_ns});
  }

  void Busy(int64_t begin, int64_t end, const Piece& piece, Layer layer) {
    const DeviceEvent& event = device_[piece.event];
    if (layer == kCommunicationLayer) {
      Add(begin, end, Spent::kExposed, event.phase, collective_of_[piece.event], LaunchTime(event));
    } else {
      Add(begin, end,
          layer == kCopyLayer ? Spent::kCopy : static_cast<Spent>(static_cast<int>(event.kind)),
          event.phase, -1, LaunchTime(event));
    }
  }

  void Idle(int64_t begin, int64_t end, const Piece* coming) {
    if (coming == nullptr) return Add(begin, end, Spent::kDependency, Phase::kUnknown);
    const DeviceEvent& event = device_[coming->event];
    int64_t host_end = begin;
    if (event.launched && event.launch_end_ns > begin) {
      host_end = std::min(event.launch_end_ns, end);
      // A launch in time would have hidden its latency too.
      if (end - host_end <= kKernelGapNs) host_end = end;
      Host(begin, host_end, event.phase);
    }
    Add(host_end, end, end - host_end <= kKernelGapNs ? Spent::kGap : Spent::kDependency,
        event.phase);
  }

  // The host's part of an idle time, without and with the input pipeline.
  void Host(int64_t begin, int64_t end, Phase phase) {
    while (input_at_ < input_.size() && input_[input_at_].end <= begin) ++input_at_;
    for (size_t i = input_at_; i < input_.size() && input_[i].begin < end; ++i) {
      Add(begin, std::max(begin, input_[i].begin), Spent::kHost, phase);
      begin = std::max(begin, input_[i].begin);
      const int64_t until = std::min(end, input_[i].end);
      Add(begin, until, Spent::kInput, phase);
      begin = std::max(begin, until);
    }
    Add(begin, end, Spent::kHost, phase);
  }

  const std::vector<DeviceEvent>& device_;
  const std::vector<int32_t>& collective_of_;
  const Intervals& input_;
  size_t input_at_ = 0;
  std::vector<Segment> segments_;
};

}  // namespace

std::vector<Segment> CutSegments(const std::vector<DeviceEvent>& device,
                                 const std::vector<int32_t>& collective_of, const Intervals& input,
                                 Interval window) {
  return Cutter(device, collective_of, input).Cut(window);
}

}  // namespace longhaul::profiler
