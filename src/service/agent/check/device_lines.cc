#include "service/agent/check/device_lines.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/text.h"

namespace longhaul::service {
namespace {

using DeviceJson = nlohmann::ordered_json;

constexpr std::array<std::string_view, 6> kDeviceKeys = {
    "name", "model", "value", "unit", "higher_is_better", "failed"};

// Reads a text of the line, if it has the key: 1 to `longest` bytes.
Status TakeDeviceText(const DeviceJson& json, const char* key, size_t longest,
                      std::string* target) {
  const auto found = json.find(key);
  if (found == json.end()) return {};
  if (!found->is_string())
    return InvalidArgument("\"" + std::string(key) + "\"" + " is not a text");
  *target = found->get<std::string>();
  if (target->empty() || target->size() > longest) {
    return InvalidArgument("\"" + std::string(key) + "\"" + " has " +
                           std::to_string(target->size()) + " bytes, expected 1 to " +
                           std::to_string(longest));
  }
  return {};
}

Status TakeDeviceValue(const DeviceJson& json, proto::DeviceMeasurement& measurement) {
  const auto value = json.find("value");
  const bool failed = !measurement.failed().empty();
  if (failed != (value == json.end())) {
    return InvalidArgument(failed ? "it has \"value\" and \"failed\", expected one of them"
                                  : "it has neither \"value\" nor \"failed\"");
  }
  if (failed) return {};
  if (!value->is_number()) return InvalidArgument("\"value\" is not a number");
  measurement.set_value(value->get<double>());
  if (!std::isfinite(measurement.value()) || measurement.value() <= 0) {
    return InvalidArgument("\"value\" is " + value->dump() + ", expected a number above 0");
  }
  return {};
}

Result<proto::DeviceMeasurement> ParseDeviceLine(std::string_view line) {
  if (line.size() > kLongestDeviceLine) {
    return InvalidArgument("it has " + std::to_string(line.size()) + " bytes, at most " +
                           std::to_string(kLongestDeviceLine) + " are allowed");
  }
  const DeviceJson json = DeviceJson::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return InvalidArgument("it is not a JSON object: " + Printable(line, 80));
  }
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(kDeviceKeys, key) == kDeviceKeys.end()) {
      return InvalidArgument("it has the unknown key \"" + Printable(key, 40) +
                             "\"; known are name, model, value, unit, higher_is_better, failed");
    }
  }
  proto::DeviceMeasurement measurement;
  RETURN_IF_ERROR(TakeDeviceText(json, "name", kLongestDeviceName, measurement.mutable_name()));
  if (measurement.name().empty()) return InvalidArgument("it has no \"name\"");
  RETURN_IF_ERROR(TakeDeviceText(json, "model", kLongestDeviceName, measurement.mutable_model()));
  RETURN_IF_ERROR(TakeDeviceText(json, "unit", kLongestDeviceUnit, measurement.mutable_unit()));
  RETURN_IF_ERROR(
      TakeDeviceText(json, "failed", kLongestDeviceFailure, measurement.mutable_failed()));
  RETURN_IF_ERROR(TakeDeviceValue(json, measurement));
  const auto direction = json.find("higher_is_better");
  if (direction != json.end() && !direction->is_boolean()) {
    return InvalidArgument("\"higher_is_better\" is neither true nor false");
  }
  measurement.set_higher_is_better(direction == json.end() || direction->get<bool>());
  return measurement;
}

}  // namespace

Result<std::vector<proto::DeviceMeasurement>> ParseDeviceLines(std::string_view output) {
  std::vector<proto::DeviceMeasurement> measurements;
  std::set<std::string> names;
  size_t number = 0;
  while (!output.empty()) {
    ++number;
    const size_t end = std::min(output.find('\n'), output.size());
    const std::string_view line = Trim(output.substr(0, end));
    output.remove_prefix(std::min(end + 1, output.size()));
    if (line.empty()) continue;
    const std::string where = "line " + std::to_string(number);
    Result<proto::DeviceMeasurement> measurement = ParseDeviceLine(line);
    if (!measurement.ok()) return measurement.status().WithContext(where);
    if (measurements.size() == kMostDeviceLines) {
      return InvalidArgument(where + ": more than " + std::to_string(kMostDeviceLines) +
                             " measurements");
    }
    if (!names.insert(measurement->name()).second) {
      return InvalidArgument(where + ": the name \"" + Printable(measurement->name(), 80) +
                             "\" occurs twice");
    }
    measurements.push_back(*std::move(measurement));
  }
  return measurements;
}

}  // namespace longhaul::service
