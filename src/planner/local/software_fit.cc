#include "planner/local/software_fit.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::planner {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t kMostColumns = 200;
constexpr size_t kDeepestKey = 4;
constexpr size_t kLargestStackFile = 64 << 10;
constexpr double kLongestStep = 1e6;
constexpr double kLeastFactor = 0.1;
constexpr double kMostFactor = 10;
constexpr std::string_view kMeasured = "step_seconds";
constexpr std::string_view kFormat = "longhaul-stack";

struct CsvLine {
  size_t number = 0;
  std::vector<std::string> cells;
};

// The file's lines that hold anything but space, cut into cells. A quoted cell may hold commas,
// line ends and doubled quotes.
Result<std::vector<CsvLine>> ReadLines(std::string_view csv) {
  std::vector<CsvLine> lines;
  size_t number = 1;
  CsvLine line{1, {""}};
  bool quoted = false;
  const auto finish = [&] {
    const bool blank = line.cells.size() == 1 && Trim(line.cells[0]).empty();
    if (!blank) lines.push_back(std::move(line));
    line = {number, {""}};
  };
  for (size_t i = 0; i < csv.size(); ++i) {
    const char c = csv[i];
    if (c == '\n') ++number;
    if (quoted) {
      const bool doubled = c == '"' && i + 1 < csv.size() && csv[i + 1] == '"';
      if (doubled) ++i;
      if (c == '"' && !doubled) {
        quoted = false;
      } else {
        line.cells.back().push_back(c);
      }
    } else if (c == '"' && Trim(line.cells.back()).empty()) {
      line.cells.back().clear();
      quoted = true;
    } else if (c == ',') {
      line.cells.emplace_back();
    } else if (c == '\n') {
      finish();
    } else {
      line.cells.back().push_back(c);
    }
  }
  if (quoted) {
    return InvalidArgument(std::to_string(line.number) + ": a quote that does not end");
  }
  finish();
  return lines;
}

// A cell as JSON: a number, a list or a word as JSON has it, else a text.
OrderedJson ValueOf(const std::string& cell) {
  const std::string text(Trim(cell));
  const OrderedJson value = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? OrderedJson(text) : value;
}

// Sets "layout.tensor" of the case. False when a part of the key is already something else.
bool Put(OrderedJson& into, std::string_view key, const OrderedJson& value) {
  OrderedJson* at = &into;
  const std::vector<std::string_view> parts = Split(key, '.');
  for (size_t i = 0; i < parts.size(); ++i) {
    OrderedJson& next = (*at)[std::string(parts[i])];
    const bool last = i + 1 == parts.size();
    if (last ? !next.is_null() : !next.is_null() && !next.is_object()) return false;
    if (last) next = value;
    at = &next;
  }
  return true;
}

Status CheckColumns(const CsvLine& head) {
  if (head.cells.size() > kMostColumns) {
    return InvalidArgument("more than " + std::to_string(kMostColumns) + " columns");
  }
  bool measured = false;
  for (const std::string& cell : head.cells) {
    const std::string_view name = Trim(cell);
    if (name == kMeasured) measured = true;
    const auto parts = Split(name, '.');
    for (const std::string_view part : parts) {
      if (part.empty() || parts.size() > kDeepestKey) {
        return InvalidArgument("not a column's name: " + Printable(name));
      }
    }
  }
  if (!measured) return InvalidArgument("no column step_seconds: what was measured");
  return {};
}

Result<MeasuredStep> StepOf(const CsvLine& head, const CsvLine& line) {
  if (line.cells.size() != head.cells.size()) {
    return InvalidArgument(std::to_string(line.cells.size()) + " cells under " +
                           std::to_string(head.cells.size()) + " columns");
  }
  MeasuredStep step;
  step.line = line.number;
  OrderedJson json = {{"case", "line " + std::to_string(line.number)}};
  for (size_t i = 0; i < head.cells.size(); ++i) {
    const std::string_view name = Trim(head.cells[i]);
    if (name == kMeasured) {
      const auto seconds = ParseDouble(Trim(line.cells[i]));
      if (!seconds.ok() || !(*seconds > 0) || *seconds > kLongestStep) {
        return InvalidArgument("step_seconds must be a number above 0 and at most 1000000, not " +
                               Printable(line.cells[i]));
      }
      step.step_s = *seconds;
      continue;
    }
    if (Trim(line.cells[i]).empty()) continue;
    if (name == "case") {
      json["case"] = std::string(Trim(line.cells[i]));
    } else if (!Put(json, name, ValueOf(line.cells[i]))) {
      return InvalidArgument("column " + Printable(name) + " contradicts another one");
    }
  }
  const std::string text = json.dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
  RETURN_IF_ERROR(ParseCase(text, step.asked));
  if (!step.asked.unknown.empty()) {
    return InvalidArgument("unknown column " + Printable(step.asked.unknown.front()));
  }
  return step;
}

// Mean of log(predicted / measured), which the factor drives to zero.
// Logarithms treat a prediction of twice and of half the measured time alike.
double MeanError(const std::vector<MeasuredStep>& rows, const StepWithFactor& predict,
                 double factor) {
  double sum = 0;
  for (const MeasuredStep& row : rows) sum += std::log(predict(row, factor) / row.step_s);
  return sum / static_cast<double>(rows.size());
}

double RootMeanSquare(const std::vector<MeasuredStep>& rows, const StepWithFactor& predict,
                      double factor) {
  double sum = 0;
  for (const MeasuredStep& row : rows) {
    sum += std::pow(predict(row, factor) / row.step_s - 1, 2);
  }
  return std::sqrt(sum / static_cast<double>(rows.size()));
}

}  // namespace

Result<std::vector<MeasuredStep>> ParseRuns(std::string_view csv, std::string_view source) {
  const std::string name(source);
  if (csv.size() > kLargestRunsFile) {
    return InvalidArgument(name + ": larger than " + std::to_string(kLargestRunsFile) + " bytes");
  }
  const auto lines = ReadLines(csv);
  if (!lines.ok()) return lines.status().WithContext(name);
  if (lines->empty()) return InvalidArgument(name + ": holds no line of column names");
  const auto at = [&](const CsvLine& line) { return name + ":" + std::to_string(line.number); };
  const CsvLine& head = lines->front();
  if (const Status checked = CheckColumns(head); !checked.ok()) {
    return checked.WithContext(at(head));
  }
  std::vector<MeasuredStep> steps;
  for (size_t i = 1; i < lines->size(); ++i) {
    const CsvLine& line = (*lines)[i];
    if (steps.size() == kMostMeasuredSteps) {
      return InvalidArgument(at(line) +
                             ": a fourth measured step: one factor is fitted to at "
                             "most three, choose those that differ most");
    }
    auto step = StepOf(head, line);
    if (!step.ok()) return step.status().WithContext(at(line));
    steps.push_back(*std::move(step));
  }
  if (steps.empty()) return InvalidArgument(name + ": holds no measured step");
  return steps;
}

Result<StackFactor> FitFactor(std::string name, const std::vector<MeasuredStep>& rows,
                              const StepWithFactor& predict) {
  CHECK(!rows.empty() && rows.size() <= kMostMeasuredSteps);
  double low = kLeastFactor;
  double high = kMostFactor;
  // Negations refuse what isn't a number too.
  if (!(MeanError(rows, predict, low) <= 0) || !(MeanError(rows, predict, high) >= 0)) {
    return FailedPrecondition(
        "no factor from 0.1 to 10 makes the predicted steps as long as the measured ones: the "
        "columns do not describe what was run");
  }
  // Bisection on a logarithmic scale: 60 halvings reach the precision of a double. The steps never
  // fall with the factor, so the root is unique up to rounding.
  for (int i = 0; i < 60; ++i) {
    const double middle = std::sqrt(low * high);
    (MeanError(rows, predict, middle) < 0 ? low : high) = middle;
  }
  StackFactor factor;
  factor.name = std::move(name);
  factor.compute_factor = std::sqrt(low * high);
  factor.rows = static_cast<uint32_t>(rows.size());
  factor.error_before = RootMeanSquare(rows, predict, 1);
  factor.error_after = RootMeanSquare(rows, predict, factor.compute_factor);
  return factor;
}

Result<StackFactor> ParseStackFile(std::string_view text) {
  const auto wrong = [](const std::string& what) {
    return InvalidArgument("stack file: " + what + ": write one with longhaul calibrate --fit");
  };
  if (text.size() > kLargestStackFile) return wrong("too large");
  const OrderedJson json = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return wrong("not a JSON object, or cut off");
  constexpr std::string_view kKeys[] = {"format", "version",      "name",       "compute_factor",
                                        "rows",   "error_before", "error_after"};
  for (const auto& [key, value] : json.items()) {
    if (std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys)) continue;
    return wrong("unknown key " + Printable(key));
  }
  // Unknown keys are refused before missing ones, so that a misspelt key is named.
  for (const std::string_view key : kKeys) {
    if (!json.contains(key)) return wrong(std::string(key) + " is missing");
  }
  if (json["format"] != kFormat) return wrong("format is not \"longhaul-stack\"");
  if (json["version"] != 1) return wrong("only version 1 is known");
  if (!json["name"].is_string() || json["name"].get_ref<const std::string&>().size() > 100) {
    return wrong("name must be a short text");
  }
  const auto number = [&](std::string_view key, double least, double most) {
    const OrderedJson& value = json[std::string(key)];
    const double found = value.is_number() ? value.get<double>() : std::nan("");
    return found >= least && found <= most ? found : std::nan("");
  };
  StackFactor factor;
  factor.name = json["name"].get<std::string>();
  factor.compute_factor = number("compute_factor", kLeastFactor, kMostFactor);
  const double rows = number("rows", 1, double(kMostMeasuredSteps));
  factor.error_before = number("error_before", 0, 1e6);
  factor.error_after = number("error_after", 0, 1e6);
  if (std::isnan(factor.compute_factor)) return wrong("compute_factor must be from 0.1 to 10");
  if (std::isnan(rows) || rows != std::floor(rows)) return wrong("rows must be 1, 2 or 3");
  if (std::isnan(factor.error_before + factor.error_after)) return wrong("an error is no share");
  factor.rows = static_cast<uint32_t>(rows);
  return factor;
}

std::string ToJson(const StackFactor& factor) {
  OrderedJson json;
  json["format"] = kFormat;
  json["version"] = 1;
  json["name"] = factor.name;
  json["compute_factor"] = factor.compute_factor;
  json["rows"] = factor.rows;
  json["error_before"] = factor.error_before;
  json["error_after"] = factor.error_after;
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace longhaul::planner
