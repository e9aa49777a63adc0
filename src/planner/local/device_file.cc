#include "planner/local/device_file.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace longhaul::planner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "longhaul-device";
constexpr int64_t kVersion = 1;
constexpr double kLargestSize = 1e15;
constexpr double kLongestSeconds = 1e6;
constexpr size_t kMostFigures = 10'000;
constexpr size_t kLongestText = 1'000;

struct KindFacts {
  std::string_view name;
  std::array<std::string_view, 3> sizes;
  size_t size_count;
  bool has_backward;
  size_t least;  // figures that a cost model can't do without
};

constexpr std::array<KindFacts, kFigureKinds> kKinds = {{
    {"matmul", {"m", "n", "k"}, 3, true, 1},
    {"attention", {"batch_heads", "sequence", "head_dim"}, 3, true, 1},
    {"norm", {"rows", "width", ""}, 2, true, 1},
    {"activation", {"rows", "width", ""}, 2, true, 1},
    {"residual", {"rows", "width", ""}, 2, true, 1},
    {"loss", {"rows", "width", ""}, 2, true, 1},
    {"embedding", {"rows", "width", ""}, 2, true, 1},
    {"optimizer", {"floats", "", ""}, 1, false, 1},
    {"all_reduce", {"ranks", "bytes", ""}, 2, false, 0},
    {"copy", {"bytes", "", ""}, 1, false, 0},
    {"storage", {"bytes", "", ""}, 1, false, 0},
    {"launch", {"", "", ""}, 0, true, 1},
    {"runtime", {"ranks", "", ""}, 1, false, 0},
}};

const KindFacts& FactsOf(FigureKind kind) { return kKinds[static_cast<size_t>(kind)]; }

// Reads the members of one object; the first mistake stays.
class Object {
 public:
  Object(const Json& json, std::string path, Status& status)
      : json_(json), path_(std::move(path)), status_(status) {
    if (!json_.is_object()) Refuse("", "is not an object");
  }

  void OnlyKeys(std::span<const std::string_view> known) {
    if (!json_.is_object()) return;
    for (const auto& [key, value] : json_.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const auto meant = Nearest(key, {known.begin(), known.end()});
      Refuse(Printable(key),
             "is not a key" + (meant ? ": did you mean " + std::string(*meant) + "?" : ""));
    }
  }

  // A number within the range; `least` where it is missing or wrong.
  double Number(std::string_view key, double least, double most) {
    const Json* value = Find(key);
    if (value == nullptr) return least;
    const double number = value->is_number() ? value->get<double>() : std::nan("");
    if (number >= least && number <= most) return number;
    Refuse(key, "must be a number from " + Json(least).dump() + " to " + Json(most).dump() +
                    ", not " + Printable(value->dump(-1, ' ', true)));
    return least;
  }

  uint64_t Whole(std::string_view key, uint64_t least, uint64_t most) {
    const Json* value = Find(key);
    if (value == nullptr) return least;
    const bool whole = value->is_number_unsigned();
    const uint64_t number = whole ? value->get<uint64_t>() : 0;
    if (whole && number >= least && number <= most) return number;
    Refuse(key, "must be a whole number from " + std::to_string(least) + " to " +
                    std::to_string(most) + ", not " + Printable(value->dump(-1, ' ', true)));
    return least;
  }

  bool Switch(std::string_view key) {
    const Json* value = Find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) Refuse(key, "must be true or false");
    return value->is_boolean() && value->get<bool>();
  }

  std::string Text(std::string_view key) {
    const Json* value = Find(key);
    if (value == nullptr) return "";
    if (!value->is_string() || value->get_ref<const std::string&>().size() > kLongestText) {
      Refuse(key, "must be a text of at most " + std::to_string(kLongestText) + " bytes");
      return "";
    }
    return value->get<std::string>();
  }

  // The member, which must be there.
  const Json* Find(std::string_view key) {
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(key);
    if (found != json_.end()) return &*found;
    Refuse(key, "is missing");
    return nullptr;
  }

  void Refuse(std::string_view key, const std::string& why) {
    const std::string dot = path_.empty() || key.empty() ? "" : ".";
    const std::string name = path_ + dot + std::string(key);
    if (status_.ok()) {
      status_ = InvalidArgument("device file: " + (name.empty() ? "" : name + " ") + why);
    }
  }

 private:
  const Json& json_;
  std::string path_;
  Status& status_;
};

Figure ReadFigure(const Json& json, size_t index, Status& status) {
  Object object(json, "figures[" + std::to_string(index) + "]", status);
  Figure figure;
  std::string name = object.Text("operator");
  if (name == "product") name = "matmul";  // of files written before 0.1
  const auto known = std::find_if(kKinds.begin(), kKinds.end(),
                                  [&](const KindFacts& kind) { return kind.name == name; });
  if (known == kKinds.end()) {
    std::vector<std::string_view> names;
    for (const KindFacts& kind : kKinds) names.push_back(kind.name);
    const auto meant = Nearest(name, names);
    object.Refuse("operator", "is unknown: " + Printable(name) +
                                  (meant ? " (did you mean " + std::string(*meant) + "?)" : ""));
    return figure;
  }
  figure.kind = static_cast<FigureKind>(known - kKinds.begin());
  std::vector<std::string_view> keys = {"operator", "forward_s", "spread", "repeats"};
  for (size_t i = 0; i < known->size_count; ++i) {
    keys.push_back(known->sizes[i]);
    figure.sizes[i] = object.Number(known->sizes[i], 1, kLargestSize);
  }
  figure.forward_s = object.Number("forward_s", 1e-12, kLongestSeconds);
  if (known->has_backward) {
    keys.emplace_back("backward_s");
    figure.backward_s = object.Number("backward_s", 1e-12, kLongestSeconds);
  }
  figure.spread = object.Number("spread", 0, 1e6);
  figure.repeats = static_cast<uint32_t>(object.Whole("repeats", 1, 1'000'000'000));
  object.OnlyKeys(keys);
  return figure;
}

// A cost model cannot do without some kinds; a file that lacks them is refused when it is read and
// not at the first prediction.
Status CheckComplete(const DeviceFile& file) {
  for (size_t i = 0; i < kKinds.size(); ++i) {
    const auto of_kind = static_cast<size_t>(
        std::count_if(file.figures.begin(), file.figures.end(),
                      [&](const Figure& figure) { return figure.kind == FigureKind(i); }));
    if (of_kind < kKinds[i].least) {
      return InvalidArgument("device file: " + std::to_string(of_kind) + " figures of " +
                             std::string(kKinds[i].name) + ", at least " +
                             std::to_string(kKinds[i].least) +
                             " are needed: run longhaul calibrate again");
    }
  }
  return {};
}

void ReadVersions(Object& top, DeviceFile& file) {
  const Json* versions = top.Find("versions");
  if (versions == nullptr) return;
  if (!versions->is_object() || versions->size() > 100) {
    return top.Refuse("versions", "must be an object of at most 100 texts");
  }
  for (const auto& [name, value] : versions->items()) {
    if (!value.is_string() || value.get_ref<const std::string&>().size() > kLongestText ||
        name.size() > kLongestText) {
      return top.Refuse("versions." + Printable(name), "must be a short text");
    }
    file.versions[name] = value.get<std::string>();
  }
}

}  // namespace

std::string_view FigureName(FigureKind kind) { return FactsOf(kind).name; }

std::span<const std::string_view> SizeNames(FigureKind kind) {
  return std::span(FactsOf(kind).sizes).first(FactsOf(kind).size_count);
}

bool HasBackward(FigureKind kind) { return FactsOf(kind).has_backward; }

Result<DeviceFile> ParseDeviceFile(std::string_view text) {
  if (text.size() > kLargestDeviceFile) {
    return InvalidArgument("device file: larger than " + std::to_string(kLargestDeviceFile) +
                           " bytes");
  }
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return InvalidArgument("device file: not JSON, or cut off");
  Status status;
  Object top(json, "", status);
  if (!status.ok()) return status;
  if (top.Text("format") != kFormat) {
    return InvalidArgument("device file: format is not \"" + std::string(kFormat) +
                           "\": write one with longhaul calibrate");
  }
  if (const uint64_t version = top.Whole("version", 1, 1'000'000); version != kVersion) {
    return InvalidArgument("device file: version " + std::to_string(version) +
                           " is not known here, 1 is: run longhaul calibrate again");
  }
  DeviceFile file;
  file.kind = top.Text("kind");
  if (file.kind != "cpu") top.Refuse("kind", "must be \"cpu\", not " + Printable(file.kind));
  file.machine = top.Text("machine");
  file.measured_at = top.Text("measured_at");
  ReadVersions(top, file);
  file.cores = static_cast<uint32_t>(top.Whole("cores", 1, 1 << 20));
  file.memory = Bytes(static_cast<int64_t>(top.Whole("memory_bytes", 1, uint64_t{1} << 60)));
  file.quick = top.Switch("quick");
  file.calibration_s = top.Number("calibration_s", 0, kLongestSeconds);
  file.process_memory =
      Bytes(static_cast<int64_t>(top.Whole("process_memory_bytes", 0, uint64_t{1} << 50)));
  const Json* figures = top.Find("figures");
  if (figures != nullptr && (!figures->is_array() || figures->size() > kMostFigures)) {
    top.Refuse("figures", "must be a list of at most " + std::to_string(kMostFigures));
    return status;
  }
  constexpr std::string_view kKeys[] = {
      "format", "version",      "kind",  "machine",       "measured_at",          "versions",
      "cores",  "memory_bytes", "quick", "calibration_s", "process_memory_bytes", "figures"};
  top.OnlyKeys(kKeys);
  if (!status.ok()) return status;
  for (size_t i = 0; i < figures->size() && status.ok(); ++i) {
    file.figures.push_back(ReadFigure((*figures)[i], i, status));
  }
  if (!status.ok()) return status;
  RETURN_IF_ERROR(CheckComplete(file));
  return file;
}

std::string ToJson(const DeviceFile& file) {
  Json json;
  json["format"] = kFormat;
  json["version"] = kVersion;
  json["kind"] = file.kind;
  json["machine"] = file.machine;
  json["measured_at"] = file.measured_at;
  json["versions"] = Json::object();
  for (const auto& [name, version] : file.versions) json["versions"][name] = version;
  json["cores"] = file.cores;
  json["memory_bytes"] = file.memory.count();
  json["quick"] = file.quick;
  json["calibration_s"] = file.calibration_s;
  json["process_memory_bytes"] = file.process_memory.count();
  json["figures"] = "@";
  // One figure a line, so that two files can be compared by eye.
  std::string figures;
  for (const Figure& figure : file.figures) {
    Json line;
    line["operator"] = FigureName(figure.kind);
    const auto names = SizeNames(figure.kind);
    for (size_t i = 0; i < names.size(); ++i) line[std::string(names[i])] = figure.sizes[i];
    line["forward_s"] = figure.forward_s;
    if (HasBackward(figure.kind)) line["backward_s"] = figure.backward_s;
    line["spread"] = figure.spread;
    line["repeats"] = figure.repeats;
    figures += (figures.empty() ? "\n    " : ",\n    ") + line.dump();
  }
  std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
  const std::string mark = "\"figures\": \"@\"";
  text.replace(text.rfind(mark), mark.size(), "\"figures\": [" + figures + "\n  ]");
  return text + "\n";
}

}  // namespace longhaul::planner
