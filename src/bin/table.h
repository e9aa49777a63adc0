// A table for people: columns as wide as their widest cell, two spaces apart.
#pragma once

#include <string>
#include <vector>

namespace longhaul::bin {

class Table {
 public:
  explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}

  // Requires as many cells as the head.
  void Add(std::vector<std::string> row);
  std::string Text() const;  // ends with a line end; no line has trailing spaces

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace longhaul::bin
