#include "profiler/memory/snapshot.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <unordered_map>

#include "base/pickle/pickle.h"
#include "base/text.h"
#include "base/units.h"

namespace longhaul::profiler {
namespace {

using PickleKind = PickleValue::Kind;

constexpr size_t kSpans = 200;
constexpr size_t kMaxFrames = 200;
constexpr size_t kMaxDevices = 1024;
constexpr int64_t kMaxBytes = int64_t{1} << 50;

class SnapshotReader {
 public:
  explicit SnapshotReader(const Pickle& pickle) : pickle_(pickle) {}

  Result<std::vector<DeviceMemory>> Read() {
    const PickleValue* traces = pickle_.Find(pickle_.root(), "device_traces");
    const PickleValue* segments = pickle_.Find(pickle_.root(), "segments");
    if (traces == nullptr && segments == nullptr) {
      return InvalidArgument(
          "no memory snapshot: expected a dictionary with segments and device_traces, as "
          "torch.cuda.memory._dump_snapshot writes it");
    }
    if (segments != nullptr) Segments(*segments);
    if (traces != nullptr && traces->kind == PickleKind::kList) {
      for (size_t d = 0; d < std::min(traces->items.size(), kMaxDevices); ++d) {
        History(static_cast<int>(d), pickle_[traces->items[d]]);
      }
    }
    std::vector<DeviceMemory> devices;
    for (auto& [number, device] : devices_) {
      if (device.events > 0 || device.reserved_bytes > 0) devices.push_back(std::move(device));
    }
    return devices;
  }

 private:
  struct Live {
    int64_t bytes = 0;
    uint32_t part = 0;
  };

  // Sizes come from a file that may be damaged; the limit keeps the sum of two from overflow.
  static int64_t Sane(int64_t bytes) { return std::clamp<int64_t>(bytes, 0, kMaxBytes); }

  DeviceMemory& Device(int number) {
    DeviceMemory& device = devices_[number];
    device.device = number;
    return device;
  }

  void Segments(const PickleValue& segments) {
    for (const uint32_t id : segments.items) {
      const PickleValue& segment = pickle_[id];
      const int64_t number = pickle_.Integer(segment, "device", 0);
      if (number < 0 || number >= static_cast<int64_t>(kMaxDevices)) continue;
      DeviceMemory& device = Device(static_cast<int>(number));
      device.reserved_bytes =
          Sane(device.reserved_bytes + Sane(pickle_.Integer(segment, "total_size", 0)));
      device.allocated_bytes =
          Sane(device.allocated_bytes + Sane(pickle_.Integer(segment, "allocated_size", 0)));
    }
  }

  // Whether it is Python's (native frames name no file, or a source or object of C++) and neither
  // PyTorch's nor made by its compiler.
  static bool IsUsers(std::string_view file) {
    const bool python = file.ends_with(".py") || file.starts_with("<");
    return python && file.find("/torch/") == file.npos && file.find("/torchinductor_") == file.npos;
  }

  // The innermost frame of the user's. Autograd's thread has none: there the operator names itself,
  // "at::_ops::mm::call(...)".
  uint32_t PartOf(const PickleValue& event) {
    const PickleValue* frames = pickle_.Find(event, "frames");
    std::string name = "no frames recorded";
    if (frames != nullptr && frames->kind == PickleKind::kList) {
      std::string_view first_operator;
      bool found = false, autograd = false;
      for (size_t i = 0; i < std::min(frames->items.size(), kMaxFrames) && !found; ++i) {
        const PickleValue& frame = pickle_[frames->items[i]];
        const std::string_view file = pickle_.Text(frame, "filename");
        const std::string_view function = pickle_.Text(frame, "name");
        found = IsUsers(file);
        autograd = autograd || function.starts_with("torch::autograd::Engine::");
        if (first_operator.empty() && function.starts_with("at::_ops::")) first_operator = function;
        if (!found && i > 0) continue;
        name = std::string(file) + ":" + std::to_string(pickle_.Integer(frame, "line", 0)) + " " +
               std::string(function);
      }
      if (!found && !first_operator.empty()) {
        name = first_operator.substr(0, first_operator.find('('));
        if (autograd) name += ", on autograd's thread";
      }
    }
    const auto [place, fresh] = part_ids_.emplace(name, static_cast<uint32_t>(parts_.size()));
    if (fresh) parts_.push_back(name);
    return place->second;
  }

  // Applies an event to what lives; the change of bytes in use.
  int64_t Apply(const PickleValue& event, DeviceMemory* device) {
    const std::string_view action = pickle_.Text(event, "action");
    const int64_t address = pickle_.Integer(event, "addr", 0);
    if (action == "alloc") {
      const int64_t bytes = Sane(pickle_.Integer(event, "size", 0));
      // A second allocation at a live address contradicts the first, whose size stays.
      const auto [place, fresh] = live_.emplace(address, Live{bytes, PartOf(event)});
      return fresh ? bytes : 0;
    }
    if (action == "free_completed" || action == "free") {
      const auto found = live_.find(address);
      if (found == live_.end()) {
        // Allocated before the recording.
        const int64_t bytes = Sane(pickle_.Integer(event, "size", 0));
        device->before_bytes = Sane(device->before_bytes + bytes);
        // The level in use is relative to the begin of the recording and can fall below zero;
        // `before_bytes` lifts the whole curve afterwards.
        return -bytes;
      }
      const int64_t bytes = found->second.bytes;
      live_.erase(found);
      return -bytes;
    }
    if (action == "oom") ++device->out_of_memory;
    return 0;
  }

  void History(int number, const PickleValue& events) {
    if (events.kind != PickleKind::kList || events.items.empty()) return;
    DeviceMemory& device = Device(number);
    live_.clear();
    std::vector<int64_t> used;
    std::vector<int64_t> times;
    int64_t now = 0;
    for (const uint32_t id : events.items) {
      now += Apply(pickle_[id], &device);
      used.push_back(now);
      times.push_back(pickle_.Integer(pickle_[id], "time_us", 0));
    }
    // What was there before: freed in the recording, or still there and not allocated in it.
    int64_t recorded = 0;
    for (const auto& [address, block] : live_) recorded += block.bytes;
    device.before_bytes =
        Sane(device.before_bytes + std::max<int64_t>(0, device.allocated_bytes - recorded));
    device.events = events.items.size();
    const auto peak = std::max_element(used.begin(), used.end());
    const auto at = static_cast<size_t>(peak - used.begin());
    device.peak_bytes = Sane(std::max<int64_t>(*peak, 0) + device.before_bytes);
    const int64_t first = times.front();
    device.length_us = Span(first, times.back());
    device.peak_time_us = Span(first, times[at]);
    AtPeak(events, at, &device);
    for (size_t span = 0; span < kSpans; ++span) {
      // Each span covers at least one event; recordings of fewer events than spans repeat some.
      const size_t from = span * used.size() / kSpans;
      const size_t to = std::max(from + 1, (span + 1) * used.size() / kSpans);
      if (from >= used.size()) break;
      device.over_time.push_back(device.before_bytes +
                                 *std::max_element(used.begin() + static_cast<ptrdiff_t>(from),
                                                   used.begin() + static_cast<ptrdiff_t>(to)));
    }
  }

  static int64_t Span(int64_t from, int64_t to) {
    int64_t length = 0;
    return __builtin_sub_overflow(to, from, &length) || length < 0 ? 0 : length;
  }

  // Replays up to the peak once more and counts what lives.
  void AtPeak(const PickleValue& events, size_t peak, DeviceMemory* device) {
    live_.clear();
    DeviceMemory scratch;
    for (size_t i = 0; i <= peak; ++i) Apply(pickle_[events.items[i]], &scratch);
    std::map<uint32_t, MemoryPart> parts;
    for (const auto& [address, block] : live_) {
      MemoryPart& part = parts[block.part];
      part.bytes += block.bytes;
      ++part.blocks;
    }
    for (auto& [id, part] : parts) {
      part.name = parts_[id];
      device->at_peak.push_back(std::move(part));
    }
    // Of what was there before the recording, the part that was not yet freed at the peak.
    const int64_t before = device->before_bytes - scratch.before_bytes;
    if (before > 0) device->at_peak.push_back({"before the recording", before, 0});
    std::stable_sort(device->at_peak.begin(), device->at_peak.end(),
                     [](const MemoryPart& a, const MemoryPart& b) { return a.bytes > b.bytes; });
  }

  const Pickle& pickle_;
  std::map<int, DeviceMemory> devices_;
  std::unordered_map<int64_t, Live> live_;
  std::map<std::string, uint32_t> part_ids_;
  std::vector<std::string> parts_;
};

}  // namespace

Result<std::vector<DeviceMemory>> ReadMemorySnapshot(std::string_view bytes) {
  ASSIGN_OR_RETURN(const Pickle pickle, Pickle::Parse(bytes));
  return SnapshotReader(pickle).Read();
}

std::string MemoryText(const std::vector<DeviceMemory>& devices) {
  std::string text;
  for (const DeviceMemory& device : devices) {
    char line[256];
    std::snprintf(line, sizeof(line),
                  "Device %d: peak %s after %.3f s of %.3f s, %llu events, %llu out of memory\n"
                  "  at the end %s in use of %s reserved\n",
                  device.device, ToString(Bytes(device.peak_bytes)).c_str(),
                  static_cast<double>(device.peak_time_us) / 1e6,
                  static_cast<double>(device.length_us) / 1e6,
                  static_cast<unsigned long long>(device.events),
                  static_cast<unsigned long long>(device.out_of_memory),
                  ToString(Bytes(device.allocated_bytes)).c_str(),
                  ToString(Bytes(device.reserved_bytes)).c_str());
    text += line;
    text += "  over time |";
    for (size_t i = 0; i < device.over_time.size(); i += 4) {
      constexpr std::string_view kHeights = " .:-=+*#%@";
      const double share = static_cast<double>(std::max<int64_t>(device.over_time[i], 0)) /
                           static_cast<double>(std::max<int64_t>(device.peak_bytes, 1));
      text += kHeights[std::min<size_t>(9, static_cast<size_t>(share * 9.99))];
    }
    text += "|\n";
    for (size_t i = 0; i < std::min<size_t>(device.at_peak.size(), 8); ++i) {
      text += "  at the peak " + ToString(Bytes(device.at_peak[i].bytes)) + " in " +
              std::to_string(device.at_peak[i].blocks) +
              " blocks: " + Printable(device.at_peak[i].name, 100) + "\n";
    }
  }
  return text;
}

}  // namespace longhaul::profiler
