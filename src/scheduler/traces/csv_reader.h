// Text of rows with separated fields, row by row, with errors that name the file, the line and the
// column.
//
//   ASSIGN_OR_RETURN(CsvReader rows, CsvReader::Open(text, "pods.csv", {"name", "cpu_milli"}));
//   while (rows.Next()) { ASSIGN_OR_RETURN(int64_t cpu, rows.Whole(1, 0, kMax)); ... }
//   RETURN_IF_ERROR(rows.status());
//
// The first line names the columns; the caller's may stand anywhere among others. Errors give
// the column as the byte in its line, from 1. Lines end in \n or \r\n; blank ones are skipped.
// Bounded: 64 MiB, 4 KiB a line, 2 million rows. Leaves out quoted fields, which no trace here has:
// they are refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::scheduler {

class CsvReader {
 public:
  static constexpr size_t kMaxBytes = size_t{64} << 20;

  // `text` outlives the reader. Columns are numbered as in `required`, then as in `optional`.
  static Result<CsvReader> Open(std::string_view text, std::string_view source,
                                const std::vector<std::string_view>& required,
                                const std::vector<std::string_view>& optional = {},
                                char separator = ',');

  // Goes to the next row; false at the end and after a mistake (status()).
  bool Next();
  const Status& status() const { return status_; }

  // Whether the text has the column.
  bool Has(size_t column) const { return place_of_column_[column].has_value(); }

  // Of this row. An optional column that the text lacks is empty.
  std::string_view Field(size_t column) const;
  Result<int64_t> Whole(size_t column, int64_t min, int64_t max) const;
  // A decimal number in thousandths, rounded down: "2.5" is 2,500. `max` in thousandths.
  Result<int64_t> Thousandths(size_t column, int64_t max) const;
  // The same in millionths.
  Result<int64_t> Millionths(size_t column, int64_t max) const;
  // As Thousandths, or nothing where the field is empty.
  Result<std::optional<int64_t>> ThousandthsOrEmpty(size_t column, int64_t max) const;

  // "pods.csv:3:17: cpu_milli: why".
  Status Refuse(size_t column, const std::string& why) const;

 private:
  CsvReader(std::string_view text, std::string_view source, char separator)
      : rest_(text), source_(source), separator_(separator) {}

  // A decimal number in parts of one, rounded down.
  Result<int64_t> InParts(size_t column, int64_t parts, int64_t max) const;
  std::string_view TakeLine();
  bool SplitLine(std::string_view line);

  std::string_view rest_;
  std::string source_;
  char separator_;
  size_t line_ = 0;
  size_t rows_ = 0;
  std::vector<std::string_view> fields_;  // of the row, as they stand
  std::vector<std::string> names_;        // of the caller's columns
  std::vector<std::optional<size_t>> place_of_column_;
  size_t width_ = 0;
  std::string_view row_;
  Status status_;
};

}  // namespace longhaul::scheduler
