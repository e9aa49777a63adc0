// The shipped devices. Peaks are dense; bandwidths are one way.
//
// Where a figure comes from, in the order of the columns:
//  memory      what torch.cuda reports as total capacity ("79.15 GiB total capacity" in messages of
//              memory exhausted), which is a little below the sheet's; for GPUs that we have seen
//              no such message of, nvidia-smi's total less 0.4 %. 2 MiB either way between drivers.
//  bandwidth,  the maker's sheets: NVIDIA A100 datasheet (June 2021), H100 datasheet and "Hopper
//  peaks,      Architecture In-Depth" (2022), H200 datasheet (Nov 2023), HGX B200/B300 and GB200/
//  links,      GB300 NVL72 sheets (2024, 2025), L40S (2023), A10 (2021); AMD Instinct MI300X (Dec
//  power       2023), MI325X (Oct 2024), MI355X (June 2025) sheets. Sparse figures are halved.
//  units       streaming multiprocessors or compute units that are on, from the same.
//  host        PCIe 4/5/6 x16: 31.5/63/126 GB/s; NVLink-C2C of a Grace with two GPUs: 900 GB/s both
//              ways for both, so 225 GB/s one way for each.
//  price       dollars an hour of one GPU on demand, as listed in February 2026: CoreWeave's
//  public
//              list for A100-80, H100, H200, B200, GB200, L40S (per-node prices over GPUs). GPUs
//              not listed there take the price of their nearest sibling: A100-40, A800 that of
//              A100-80; H100-PCIe, H100-96, H800 that of H100; B300 and GB300 that of B200 and
//              GB200 times the ratio of their FP4 peaks' square root. A10: Lambda's list. MI300X,
//              MI325X, MI355X: Vultr's list (late 2025). Prices move: pass your own.
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "base/text.h"
#include "spec/cluster/device.h"

namespace longhaul::spec {

namespace {

struct Row {
  std::string_view name;
  double memory_gib;
  double memory_gb_per_s;
  double fp32_tflops;
  double half_tflops;
  double fp8_tflops;
  double fp4_tflops;
  uint32_t compute_units;
  double island_gb_per_s;
  double host_gb_per_s;
  double watts;
  double dollars;
};

constexpr auto kDevices = std::to_array<Row>({
    // GA102, Ampere without NVLink. TF32 for fp32.
    {"a10", 22.0, 600, 62.5, 125, 0, 0, 72, 0, 31.5, 150, 0.75},
    // GA100. The 40 GB GPU has HBM2 with 1,555 GB/s.
    {"a100-40gb-sxm", 39.39, 1555, 156, 312, 0, 0, 108, 300, 31.5, 400, 2.70},
    // Bridges join pairs only, so a node of these is planned as without NVLink.
    {"a100-80gb-pcie", 79.15, 1935, 156, 312, 0, 0, 108, 0, 31.5, 300, 2.70},
    {"a100-80gb-sxm", 79.15, 2039, 156, 312, 0, 0, 108, 300, 31.5, 400, 2.70},
    // An A100 with 400 GB/s of NVLink both ways instead of 600.
    {"a800-80gb", 79.15, 2039, 156, 312, 0, 0, 108, 200, 31.5, 400, 2.70},
    {"b200-sxm", 178.35, 8000, 1125, 2250, 4500, 9000, 148, 900, 63, 1000, 8.60},
    {"b300-sxm", 267.6, 8000, 1125, 2250, 4500, 13500, 148, 900, 126, 1100, 10.50},
    // One rank on one core of a server: 98 GFLOP/s of fp32 and 10 GB/s measured on a 2-core host
    // (planner/local/cost_test.cc); 4 GiB is a usual share. `longhaul calibrate` measures the real
    // one.
    {"cpu", 4.0, 10, 0.098, 0.098, 0, 0, 1, 0, 10, 10, 0.05},
    {"gb200-nvl72", 184.3, 8000, 1250, 2500, 5000, 10000, 152, 900, 225, 1200, 10.50},
    {"gb300-nvl72", 276.6, 8000, 1250, 2500, 5000, 15000, 152, 900, 225, 1400, 12.90},
    // HBM2e variant of some hyperscalers: 96 GB with 2.4 TB/s (torchtitan's benchmarks name it).
    {"h100-96gb-sxm", 95.04, 2400, 494.7, 989.4, 1978.9, 0, 132, 450, 63, 700, 6.155},
    {"h100-pcie", 79.1, 2039, 378, 756, 1513, 0, 114, 0, 63, 350, 6.155},
    {"h100-sxm", 79.1, 3350, 494.7, 989.4, 1978.9, 0, 132, 450, 63, 700, 6.155},
    {"h200-sxm", 139.8, 4800, 494.7, 989.4, 1978.9, 0, 132, 450, 63, 700, 6.305},
    // An H100 with 400 GB/s of NVLink both ways instead of 900.
    {"h800-sxm", 79.1, 3350, 494.7, 989.4, 1978.9, 0, 132, 200, 63, 700, 6.155},
    {"l40s", 44.4, 864, 183, 362, 733, 0, 142, 0, 31.5, 350, 2.25},
    // Seven xGMI links of 64 GB/s one way, one to each neighbour.
    {"mi300x", 191.98, 5300, 653.7, 1307.4, 2614.9, 0, 304, 448, 63, 750, 1.85},
    {"mi325x", 255.98, 6000, 653.7, 1307.4, 2614.9, 0, 304, 448, 63, 1000, 2.00},
    // No TF32 unit; seven links of 76.8 GB/s.
    {"mi355x", 287.98, 8000, 157.3, 2516.6, 5033.2, 10066.3, 256, 537.6, 63, 1400, 2.59},
});

constexpr auto kAliases = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"a100-sxm", "a100-80gb-sxm"},
    {"a100", "a100-80gb-sxm"},
    {"a100-40gb", "a100-40gb-sxm"},
    {"a100-80gb", "a100-80gb-sxm"},
    {"a100-pcie", "a100-80gb-pcie"},
    {"a800", "a800-80gb"},
    {"a800-80gb-sxm", "a800-80gb"},
    {"b200", "b200-sxm"},
    {"b300", "b300-sxm"},
    {"gb200", "gb200-nvl72"},
    {"gb300", "gb300-nvl72"},
    {"h100", "h100-sxm"},
    {"h100-80gb-sxm", "h100-sxm"},
    {"h200", "h200-sxm"},
    {"h800", "h800-sxm"},
});

// The words of a maker's name for a GPU: "NVIDIA A100-SXM4-80GB", "H100 80GB HBM3".
struct Spelling {
  std::string family;  // "a100"
  bool pcie = false;
  uint32_t gigabytes = 0;  // 0: not given
};

std::vector<std::string> WordsOf(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    const bool letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter) {
      words.back() += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// Gigabytes of "80gb", "80g", "80"; 0 for anything else.
uint32_t GigabytesOf(std::string_view word) {
  uint32_t number = 0;
  size_t digits = 0;
  for (; digits < word.size() && word[digits] >= '0' && word[digits] <= '9'; ++digits) {
    number = number * 10 + static_cast<uint32_t>(word[digits] - '0');
    if (number > 1'000) return 0;
  }
  const std::string_view unit = word.substr(digits);
  return digits > 0 && (unit.empty() || unit == "g" || unit == "gb" || unit == "gib") ? number : 0;
}

// Absent where any word is unknown: a guess would answer for another GPU.
std::optional<Spelling> ReadSpelling(std::string_view name) {
  static constexpr std::string_view kFamilies[] = {"a10",   "a100",   "a800",   "b200",  "b300",
                                                   "gb200", "gb300",  "h100",   "h200",  "h800",
                                                   "l40s",  "mi300x", "mi325x", "mi355x"};
  static constexpr std::string_view kNoise[] = {
      "nvidia", "amd", "instinct", "tesla", "dgx",  "hgx",   "gpu",
      "gb",     "gib", "tensor",   "core",  "hbm2", "hbm2e", "hbm3",
      "hbm3e",  "sxm", "sxm4",     "sxm5",  "sxm6", "oam",   "nvl72"};
  Spelling spelling;
  for (const std::string& word : WordsOf(name)) {
    const auto is = [&](std::string_view known) { return known == word; };
    if (std::any_of(std::begin(kFamilies), std::end(kFamilies), is)) {
      if (!spelling.family.empty()) return std::nullopt;
      spelling.family = word;
    } else if (word == "pcie") {
      spelling.pcie = true;
    } else if (const uint32_t gigabytes = GigabytesOf(word); gigabytes > 0) {
      spelling.gigabytes = gigabytes;
    } else if (std::none_of(std::begin(kNoise), std::end(kNoise), is)) {
      return std::nullopt;
    }
  }
  if (spelling.family.empty()) return std::nullopt;
  return spelling;
}

// The shipped name for it, empty if there is none.
std::string_view ShippedName(const Spelling& gpu) {
  const bool small = gpu.gigabytes > 0 && gpu.gigabytes <= 48;
  if (gpu.family == "a100" && gpu.pcie) return small ? "" : "a100-80gb-pcie";
  if (gpu.family == "a100") return small ? "a100-40gb-sxm" : "a100-80gb-sxm";
  if (gpu.family == "h100" && gpu.pcie) return "h100-pcie";
  if (gpu.family == "h100" && gpu.gigabytes > 90) return "h100-96gb-sxm";
  for (const auto& [alias, device] : kAliases) {
    if (alias == gpu.family) return device;
  }
  for (const Row& row : kDevices) {
    if (row.name == gpu.family) return row.name;
  }
  return "";
}

Device ToDevice(const Row& row) {
  Device device;
  device.name = row.name;
  device.memory = Bytes(static_cast<int64_t>(row.memory_gib * 1024.0) << 20);
  device.memory_bandwidth = BytesPerSecond(row.memory_gb_per_s * 1e9);
  device.fp32 = FlopsPerSecond(row.fp32_tflops * 1e12);
  device.half = FlopsPerSecond(row.half_tflops * 1e12);
  device.fp8 = FlopsPerSecond(row.fp8_tflops * 1e12);
  device.fp4 = FlopsPerSecond(row.fp4_tflops * 1e12);
  device.compute_units = row.compute_units;
  device.island_bandwidth = BytesPerSecond(row.island_gb_per_s * 1e9);
  device.host_bandwidth = BytesPerSecond(row.host_gb_per_s * 1e9);
  device.power_watts = row.watts;
  device.dollars_per_hour = row.dollars;
  return device;
}

}  // namespace

Result<Device> FindDevice(std::string_view name) {
  std::string_view wanted = name;
  std::vector<std::string_view> known;
  for (const auto& [alias, device] : kAliases) {
    known.push_back(alias);
    if (alias == name) wanted = device;
  }
  const auto is_wanted = [&](const Row& row) { return row.name == wanted; };
  if (std::none_of(kDevices.begin(), kDevices.end(), is_wanted)) {
    const auto spelling = ReadSpelling(name);
    if (spelling && spelling->family == "a100" && ShippedName(*spelling).empty()) {
      Device device = *FindDevice("a100-80gb-pcie");  // the 40 GB GPU of the same form
      const Device small = *FindDevice("a100-40gb-sxm");
      device.name = "a100-40gb-pcie";
      device.memory = small.memory;
      device.memory_bandwidth = small.memory_bandwidth;
      return device;
    }
    if (spelling) wanted = ShippedName(*spelling);
  }
  for (const Row& row : kDevices) {
    known.push_back(row.name);
    if (row.name == wanted) return ToDevice(row);
  }
  std::string why = "no device is called '" + Printable(name, 60) + "'";
  if (const auto nearest = Nearest(name, known)) {
    why += ", did you mean '" + std::string(*nearest) + "'";
  }
  return NotFound(why + "; known: " + Join(DeviceNames(), ", "));
}

std::vector<std::string> DeviceNames() {
  std::vector<std::string> names;
  for (const Row& row : kDevices) names.emplace_back(row.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace longhaul::spec
