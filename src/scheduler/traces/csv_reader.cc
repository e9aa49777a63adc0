#include "scheduler/traces/csv_reader.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::scheduler {

namespace {

constexpr size_t kMaxLineBytes = 4'096;
constexpr size_t kMaxRows = 2'000'000;

}  // namespace

Result<CsvReader> CsvReader::Open(std::string_view text, std::string_view source,
                                  const std::vector<std::string_view>& required,
                                  const std::vector<std::string_view>& optional, char separator) {
  CsvReader reader(text, source, separator);
  if (text.size() > kMaxBytes) {
    return InvalidArgument(reader.source_ + ": has " +
                           WithThousands(static_cast<int64_t>(text.size())) +
                           " bytes: at most 64 MiB");
  }
  const std::string_view header = reader.TakeLine();
  if (!reader.SplitLine(header)) return reader.status_;
  reader.width_ = reader.fields_.size();
  std::vector<std::string_view> columns = required;
  columns.insert(columns.end(), optional.begin(), optional.end());
  for (const std::string_view name : columns) {
    const auto found = std::find(reader.fields_.begin(), reader.fields_.end(), name);
    reader.names_.emplace_back(name);
    reader.place_of_column_.emplace_back();
    if (found == reader.fields_.end()) continue;
    reader.place_of_column_.back() = static_cast<size_t>(found - reader.fields_.begin());
  }
  for (size_t i = 0; i < required.size(); ++i) {
    if (reader.place_of_column_[i]) continue;
    return InvalidArgument(reader.source_ + ":1:1: the header lacks the column '" +
                           reader.names_[i] + "'; it has: " + Printable(header, 200));
  }
  return reader;
}

std::string_view CsvReader::TakeLine() {
  const size_t end = rest_.find('\n');
  std::string_view line = rest_.substr(0, end);
  rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  ++line_;
  return line;
}

bool CsvReader::SplitLine(std::string_view line) {
  const std::string place = source_ + ":" + std::to_string(line_) + ":";
  row_ = line;
  if (line.size() > kMaxLineBytes) {
    status_ = InvalidArgument(place + "1: the line has " + std::to_string(line.size()) +
                              " bytes: at most 4096");
    return false;
  }
  // Quoted fields would need another grammar; a file that has them is refused instead of misread.
  const size_t bad = line.find_first_of(std::string_view("\"\0", 2));
  if (bad != std::string_view::npos) {
    status_ = InvalidArgument(place + std::to_string(bad + 1) +
                              (line[bad] == '"' ? ": quoted fields are not supported"
                                                : ": the line contains a NUL character"));
    return false;
  }
  fields_ = Split(line, separator_);
  return true;
}

bool CsvReader::Next() {
  if (!status_.ok()) return false;
  std::string_view line;
  do {
    if (rest_.empty()) return false;
    line = TakeLine();
  } while (line.empty());
  if (!SplitLine(line)) return false;
  if (fields_.size() != width_) {
    status_ = InvalidArgument(source_ + ":" + std::to_string(line_) + ":" +
                              std::to_string(line.size() + 1) + ": the row has " +
                              std::to_string(fields_.size()) + " fields where the header has " +
                              std::to_string(width_));
    return false;
  }
  if (++rows_ > kMaxRows) {
    status_ =
        InvalidArgument(source_ + ":" + std::to_string(line_) + ":1: more than 2,000,000 rows");
    return false;
  }
  return true;
}

std::string_view CsvReader::Field(size_t column) const {
  const auto place = place_of_column_[column];
  return place ? fields_[*place] : std::string_view();
}

Status CsvReader::Refuse(size_t column, const std::string& why) const {
  const auto place = place_of_column_[column];
  const size_t byte = place ? static_cast<size_t>(fields_[*place].data() - row_.data()) + 1 : 1;
  return InvalidArgument(source_ + ":" + std::to_string(line_) + ":" + std::to_string(byte) + ": " +
                         names_[column] + ": " + why);
}

Result<int64_t> CsvReader::Whole(size_t column, int64_t min, int64_t max) const {
  const Result<int64_t> number = ParseInt64(Field(column));
  if (!number.ok() && number.status().code() != Code::kOutOfRange) {
    return Refuse(column, "'" + Printable(Field(column), 40) + "' is not a whole number");
  }
  if (!number.ok() || *number < min || *number > max) {
    return Refuse(column, Printable(Field(column), 40) + " is out of range: " + WithThousands(min) +
                              " to " + WithThousands(max));
  }
  return *number;
}

Result<int64_t> CsvReader::Thousandths(size_t column, int64_t max) const {
  return InParts(column, 1'000, max);
}

Result<int64_t> CsvReader::Millionths(size_t column, int64_t max) const {
  return InParts(column, 1'000'000, max);
}

Result<int64_t> CsvReader::InParts(size_t column, int64_t parts, int64_t max) const {
  const Result<double> number = ParseDouble(Field(column));
  if (!number.ok()) {
    return Refuse(column, "'" + Printable(Field(column), 40) + "' is not a number");
  }
  const double scaled = *number * static_cast<double>(parts);
  if (!(*number >= 0 && scaled <= static_cast<double>(max))) {
    return Refuse(column, Printable(Field(column), 40) + " is out of range: 0 to " +
                              WithThousands(max / parts));
  }
  // The small addition keeps a decimal fraction, which a double represents a little too low, from
  // losing a unit.
  return static_cast<int64_t>(std::floor(scaled + 1e-6));
}

Result<std::optional<int64_t>> CsvReader::ThousandthsOrEmpty(size_t column, int64_t max) const {
  if (Field(column).empty()) return std::optional<int64_t>();
  ASSIGN_OR_RETURN(const int64_t number, Thousandths(column, max));
  return std::optional<int64_t>(number);
}

}  // namespace longhaul::scheduler
