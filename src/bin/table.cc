#include "bin/table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/format.h"

namespace longhaul::bin {

void Table::Add(std::vector<std::string> row) {
  CHECK(row.size() == rows_.front().size());
  for (std::string& cell : row) cell = Harmless(cell);
  rows_.push_back(std::move(row));
}

std::string Table::Text() const {
  std::vector<size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], Width(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] - Width(row[i]) + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

}  // namespace longhaul::bin
