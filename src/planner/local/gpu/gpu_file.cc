#include "planner/local/gpu/gpu_file.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "spec/cluster/device_cluster.h"

namespace longhaul::planner {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t kLargest = 4 << 20;
constexpr size_t kMostGpuFigures = 10'000;
constexpr double kLargestGpuSize = 1e15;
constexpr double kLongestGpuSeconds = 1e6;

struct Facts {
  std::string_view name;
  std::array<std::string_view, 3> sizes;
  size_t size_count;
  bool has_precision;
};

constexpr std::array<Facts, kGpuOperators> kFacts = {{
    {"matmul", {"m", "n", "k"}, 3, true},
    {"attention", {"batch_heads", "sequence", "head_dim"}, 3, true},
    {"stream", {"bytes", "", ""}, 1, false},
    {"to_device", {"bytes", "", ""}, 1, false},
    {"to_host", {"bytes", "", ""}, 1, false},
    {"launch", {"", "", ""}, 0, false},
    {"all_reduce", {"ranks", "bytes", ""}, 2, false},
    {"all_gather", {"ranks", "bytes", ""}, 2, false},
    {"reduce_scatter", {"ranks", "bytes", ""}, 2, false},
    {"all_to_all", {"ranks", "bytes", ""}, 2, false},
}};
constexpr std::array<std::string_view, 6> kPrecisionNames = {"fp32", "fp16",  "bf16",
                                                             "fp8",  "mxfp8", "nvfp4"};

const Facts& FactsOf(GpuOperator op) { return kFacts[static_cast<size_t>(op)]; }

Status Wrong(const std::string& where, const std::string& why) {
  return InvalidArgument("GPU file: " + where + " " + why);
}

std::string Shown(const OrderedJson& json) {
  return Printable(json.dump(-1, ' ', true, OrderedJson::error_handler_t::replace), 40);
}

Result<double> Number(const OrderedJson& object, const std::string& where, std::string_view key,
                      double least, double most) {
  const std::string name = where + std::string(key);
  const auto found = object.find(key);
  if (found == object.end()) return Wrong(name, "is missing");
  const double number = found->is_number() ? found->get<double>() : std::nan("");
  if (number >= least && number <= most) return number;
  return Wrong(name, "must be a number from " + OrderedJson(least).dump() + " to " +
                         OrderedJson(most).dump() + ", not " + Shown(*found));
}

Result<uint64_t> Whole(const OrderedJson& object, const std::string& where, std::string_view key,
                       uint64_t most) {
  ASSIGN_OR_RETURN(const double number, Number(object, where, key, 1, static_cast<double>(most)));
  if (number == std::floor(number)) return static_cast<uint64_t>(number);
  return Wrong(where + std::string(key), "must be a whole number");
}

Result<std::string> Text(const OrderedJson& object, const std::string& where,
                         std::string_view key) {
  const auto found = object.find(key);
  if (found == object.end()) return Wrong(where + std::string(key), "is missing");
  if (!found->is_string() || found->get_ref<const std::string&>().size() > 1000) {
    return Wrong(where + std::string(key), "must be a text of at most 1000 bytes");
  }
  return found->get<std::string>();
}

Status OnlyKeys(const OrderedJson& object, const std::string& where,
                const std::vector<std::string_view>& known) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const auto meant = Nearest(key, known);
    return Wrong(where + Printable(key, 40),
                 "is not a key" + (meant ? ": did you mean " + std::string(*meant) + "?" : ""));
  }
  return {};
}

template <size_t N>
Result<size_t> OneOf(const std::string& word, const std::array<std::string_view, N>& known,
                     const std::string& where) {
  const auto found = std::find(known.begin(), known.end(), word);
  if (found != known.end()) return static_cast<size_t>(found - known.begin());
  const auto meant = Nearest(word, known);
  return Wrong(where, "is unknown: " + Printable(word, 40) +
                          (meant ? " (did you mean " + std::string(*meant) + "?)" : ""));
}

Result<GpuFigure> ReadFigure(const OrderedJson& object, const std::string& where) {
  if (!object.is_object()) return Wrong(where, "is not an object");
  GpuFigure figure;
  std::array<std::string_view, kGpuOperators> names;
  for (size_t i = 0; i < kGpuOperators; ++i) names[i] = kFacts[i].name;
  ASSIGN_OR_RETURN(const std::string name, Text(object, where, "operator"));
  ASSIGN_OR_RETURN(const size_t op, OneOf(name, names, where + "operator"));
  figure.op = static_cast<GpuOperator>(op);
  const Facts& facts = FactsOf(figure.op);
  std::vector<std::string_view> keys = {"operator", "seconds", "spread", "repeats"};
  if (facts.has_precision) {
    keys.emplace_back("precision");
    ASSIGN_OR_RETURN(const std::string precision, Text(object, where, "precision"));
    ASSIGN_OR_RETURN(const size_t index, OneOf(precision, kPrecisionNames, where + "precision"));
    figure.precision = static_cast<spec::Precision>(index);
  }
  for (size_t i = 0; i < facts.size_count; ++i) {
    keys.push_back(facts.sizes[i]);
    ASSIGN_OR_RETURN(figure.sizes[i], Number(object, where, facts.sizes[i], 1, kLargestGpuSize));
  }
  ASSIGN_OR_RETURN(figure.seconds, Number(object, where, "seconds", 1e-12, kLongestGpuSeconds));
  ASSIGN_OR_RETURN(figure.spread, Number(object, where, "spread", 0, 1e6));
  ASSIGN_OR_RETURN(const uint64_t repeats, Whole(object, where, "repeats", 1'000'000'000));
  figure.repeats = static_cast<uint32_t>(repeats);
  RETURN_IF_ERROR(OnlyKeys(object, where, keys));
  return figure;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// The shipped GPU with the driver's name, else the one with as many compute units and nearest
// memory.
Result<spec::Device> Like(const GpuFile& file) {
  std::string name;
  for (const char c : file.machine) name += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  std::optional<spec::Device> best;
  double best_score = 0;
  for (const std::string& shipped : spec::DeviceNames()) {
    const Result<spec::Device> device = spec::FindDevice(shipped);
    if (!device.ok() || shipped == "cpu") continue;
    const std::string family = shipped.substr(0, shipped.find('-'));
    const double memory = std::abs(std::log(static_cast<double>(device->memory.count()) /
                                            static_cast<double>(file.memory.count())));
    const double units = std::abs(std::log(static_cast<double>(device->compute_units) /
                                           static_cast<double>(file.compute_units)));
    const bool named = name.find(family) != std::string::npos;
    const bool pcie = shipped.find("pcie") != std::string::npos;
    const bool says_pcie = name.find("pcie") != std::string::npos;
    const double score = 1 + memory + 2 * units + (named ? 0 : 3) + (pcie == says_pcie ? 0 : 0.5);
    if (!best || score < best_score) {
      best = *device;
      best_score = score;
    }
  }
  if (!best) return InternalError("no GPU is shipped");
  return *best;
}

// One factor on the rate of the matmuls of each measured precision; of the others bf16's.
void FitMatmuls(const GpuFile& file, DeviceMatrix& matrix) {
  std::array<std::vector<double>, 6> ratios;
  for (const GpuFigure& figure : file.figures) {
    if (figure.op != GpuOperator::kMatmul) continue;
    const auto index = static_cast<size_t>(figure.precision);
    const double predicted = MatmulSeconds(matrix, matrix.products[index], figure.sizes[0],
                                           figure.sizes[1], figure.sizes[2]);
    if (predicted > 0) ratios[index].push_back(predicted / figure.seconds);
  }
  const auto bf16 = static_cast<size_t>(spec::Precision::kBf16);
  const double usual = ratios[bf16].empty() ? 1 : Median(ratios[bf16]);
  for (size_t i = 0; i < ratios.size(); ++i) {
    matrix.products[i].sustained_flops_per_s *= ratios[i].empty() ? usual : Median(ratios[i]);
  }
  matrix.attention.forward_flops_per_s *= usual;
  matrix.measured = true;
}

// The figure of the operator with the largest (or smallest) last size.
const GpuFigure* Extreme(const GpuFile& file, GpuOperator op, bool largest) {
  const GpuFigure* found = nullptr;
  const size_t last = FactsOf(op).size_count - 1;
  for (const GpuFigure& figure : file.figures) {
    if (figure.op != op) continue;
    const auto key = [&](const GpuFigure& f) {
      // Of several counts of ranks the whole machine's.
      return last == 1 ? f.sizes[0] * 1e16 + (largest ? 1 : -1) * f.sizes[1]
                       : (largest ? 1 : -1) * f.sizes[0];
    };
    if (found == nullptr || key(figure) > key(*found)) found = &figure;
  }
  return found;
}

void FitStreams(const GpuFile& file, DeviceMatrix& matrix, spec::Device& device) {
  if (const GpuFigure* stream = Extreme(file, GpuOperator::kStream, true)) {
    const double rate = 2 * stream->sizes[0] / stream->seconds;
    const double factor = rate / matrix.bandwidth_bytes_per_s;
    matrix.bandwidth_bytes_per_s = rate;
    matrix.permute_bytes_per_s *= factor;
    matrix.quantise_bytes_per_s *= factor;
    matrix.scattered_bytes_per_s *= factor;
    // A sheet is never below what was reached.
    device.memory_bandwidth = BytesPerSecond(std::max(device.memory_bandwidth.count(), rate));
  }
  const GpuFigure* there = Extreme(file, GpuOperator::kToDevice, true);
  const GpuFigure* back = Extreme(file, GpuOperator::kToHost, true);
  if (there != nullptr && back != nullptr) {
    device.host_bandwidth =
        BytesPerSecond(std::min(there->sizes[0] / there->seconds, back->sizes[0] / back->seconds));
  }
  for (const GpuFigure& figure : file.figures) {
    if (figure.op == GpuOperator::kLaunch) matrix.kernel_floor_s = figure.seconds;
  }
}

// Bandwidth from the largest size of a kind, with the latency taken off.
double LinkRate(const Links& links, const GpuFigure& figure, double passes) {
  const double through = passes * figure.sizes[1] * (figure.sizes[0] - 1) / figure.sizes[0];
  const double latency =
      std::min(links.island_latency_s + passes * links.island_hop_s * (figure.sizes[0] - 2),
               0.9 * figure.seconds);
  return (through + links.island_root_bytes * std::sqrt(through)) / (figure.seconds - latency);
}

void FitLinks(const GpuFile& file, Links& links, spec::Device& device) {
  const GpuFigure* small = Extreme(file, GpuOperator::kAllReduce, false);
  if (small != nullptr && small->sizes[1] <= 1 << 20) {
    // Of a small sum next to nothing is transfer; hops stay the shipped ones.
    const double hops = 2 * links.island_hop_s * (small->sizes[0] - 2);
    links.island_latency_s = std::max(1e-7, small->seconds - hops);
  }
  std::vector<double> rates;
  for (const GpuOperator op : {GpuOperator::kAllGather, GpuOperator::kReduceScatter}) {
    if (const GpuFigure* figure = Extreme(file, op, true)) {
      rates.push_back(LinkRate(links, *figure, 1));
    }
  }
  const GpuFigure* sum = Extreme(file, GpuOperator::kAllReduce, true);
  if (rates.empty() && sum != nullptr) rates.push_back(LinkRate(links, *sum, 2));
  if (rates.empty()) return;
  links.island_bytes_per_s = Median(rates);
  links.island_reduce_bytes_per_s =
      sum != nullptr ? LinkRate(links, *sum, 2) : links.island_bytes_per_s;
  device.island_bandwidth =
      BytesPerSecond(std::max(device.island_bandwidth.count(), links.island_bytes_per_s));
}

}  // namespace

std::string_view GpuOperatorName(GpuOperator op) { return FactsOf(op).name; }

std::span<const std::string_view> GpuSizeNames(GpuOperator op) {
  return std::span(FactsOf(op).sizes).first(FactsOf(op).size_count);
}

Result<GpuFile> ParseGpuFile(std::string_view text) {
  if (text.size() > kLargest) return InvalidArgument("GPU file: larger than 4 MiB");
  const OrderedJson json = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return InvalidArgument("GPU file: not JSON, or cut off");
  if (!json.is_object() || json.value("format", OrderedJson()) != "longhaul-gpu") {
    return InvalidArgument(
        "GPU file: format is not \"longhaul-gpu\": write one with longhaul calibrate --device "
        "cuda");
  }
  ASSIGN_OR_RETURN(const uint64_t version, Whole(json, "", "version", 1'000'000));
  if (version != 1) {
    return InvalidArgument("GPU file: version " + std::to_string(version) +
                           " is not known here, 1 is: run longhaul calibrate again");
  }
  GpuFile file;
  ASSIGN_OR_RETURN(file.machine, Text(json, "", "machine"));
  ASSIGN_OR_RETURN(file.measured_at, Text(json, "", "measured_at"));
  ASSIGN_OR_RETURN(file.driver, Text(json, "", "driver"));
  ASSIGN_OR_RETURN(const uint64_t gpus, Whole(json, "", "gpus", 1024));
  ASSIGN_OR_RETURN(const uint64_t memory, Whole(json, "", "memory_bytes", uint64_t{1} << 50));
  ASSIGN_OR_RETURN(const uint64_t units, Whole(json, "", "compute_units", 100'000));
  file.gpus = static_cast<uint32_t>(gpus);
  file.memory = Bytes(static_cast<int64_t>(memory));
  file.compute_units = static_cast<uint32_t>(units);
  const auto quick = json.find("quick");
  if (quick == json.end() || !quick->is_boolean()) return Wrong("quick", "must be true or false");
  file.quick = quick->get<bool>();
  RETURN_IF_ERROR(OnlyKeys(json, "",
                           {"format", "version", "machine", "measured_at", "driver", "gpus",
                            "memory_bytes", "compute_units", "quick", "figures"}));
  const auto figures = json.find("figures");
  if (figures == json.end() || !figures->is_array() || figures->size() > kMostGpuFigures) {
    return Wrong("figures", "must be a list of at most " + std::to_string(kMostGpuFigures));
  }
  std::array<size_t, kGpuOperators> counts{};
  for (size_t i = 0; i < figures->size(); ++i) {
    ASSIGN_OR_RETURN(GpuFigure figure,
                     ReadFigure((*figures)[i], "figures[" + std::to_string(i) + "]."));
    if (FactsOf(figure.op).size_count == 2 && figure.sizes[0] < 2) {
      return Wrong("figures[" + std::to_string(i) + "].ranks", "must be 2 or more");
    }
    ++counts[static_cast<size_t>(figure.op)];
    file.figures.push_back(figure);
  }
  if (counts[static_cast<size_t>(GpuOperator::kMatmul)] < 3 ||
      counts[static_cast<size_t>(GpuOperator::kStream)] < 1) {
    return Wrong("figures", "hold fewer than three products and a stream: calibrate again");
  }
  return file;
}

std::string ToJson(const GpuFile& file) {
  OrderedJson json = {{"format", "longhaul-gpu"},
                      {"version", 1},
                      {"machine", file.machine},
                      {"measured_at", file.measured_at},
                      {"driver", file.driver},
                      {"gpus", file.gpus},
                      {"memory_bytes", file.memory.count()},
                      {"compute_units", file.compute_units},
                      {"quick", file.quick},
                      {"figures", "@"}};
  // One figure a line, so that two files can be compared by eye.
  std::string figures;
  for (const GpuFigure& figure : file.figures) {
    const Facts& facts = FactsOf(figure.op);
    OrderedJson line = {{"operator", facts.name}};
    if (facts.has_precision)
      line["precision"] = kPrecisionNames[static_cast<size_t>(figure.precision)];
    for (size_t i = 0; i < facts.size_count; ++i) {
      line[std::string(facts.sizes[i])] = figure.sizes[i];
    }
    line["seconds"] = figure.seconds;
    line["spread"] = figure.spread;
    line["repeats"] = figure.repeats;
    figures += (figures.empty() ? "\n    " : ",\n    ") + line.dump();
  }
  std::string text = json.dump(2, ' ', false, OrderedJson::error_handler_t::replace);
  const std::string mark = "\"figures\": \"@\"";
  text.replace(text.rfind(mark), mark.size(), "\"figures\": [" + figures + "\n  ]");
  return text + "\n";
}

Result<GpuConstants> ConstantsOf(const GpuFile& file, uint32_t devices) {
  if (devices == 0) devices = file.gpus;
  if (devices > file.gpus && devices % file.gpus != 0) {
    return InvalidArgument(std::to_string(devices) + " GPUs do not fill machines of " +
                           std::to_string(file.gpus) + ": give a multiple of it");
  }
  GpuConstants constants;
  ASSIGN_OR_RETURN(const spec::Device like, Like(file));
  constants.like = like.name;
  ASSIGN_OR_RETURN(constants.cluster,
                   spec::ParseClusterName(like.name + ":" + std::to_string(devices)));
  spec::DeviceCluster& cluster = constants.cluster;
  cluster.devices_per_node = std::min(devices, file.gpus);
  cluster.island = cluster.devices_per_node;
  cluster.network.rails = cluster.devices_per_node;
  cluster.device.memory = file.memory;
  cluster.device.compute_units = file.compute_units;
  constants.matrix = ShippedMatrix(cluster.device);
  constants.matrix.compute_units = file.compute_units;
  FitMatmuls(file, constants.matrix);
  FitStreams(file, constants.matrix, cluster.device);
  constants.links = ShippedLinks(cluster);
  FitLinks(file, constants.links, cluster.device);
  RETURN_IF_ERROR(spec::CheckDeviceCluster(cluster));
  return constants;
}

}  // namespace longhaul::planner
