// Collects the mistakes in a value, so that a person sees all of them at once.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"

namespace longhaul::spec::internal {

class Mistakes {
 public:
  void Add(std::string line) {
    ++count_;
    if (lines_.size() < kMost) lines_.push_back(std::move(line));
  }
  // Adds "NAME: VALUE is out of range: MIN to MAX" unless it is within both.
  void Range(const char* name, uint64_t value, uint64_t min, uint64_t max) {
    if (value >= min && value <= max) return;
    Add(std::string(name) + ": " + Number(value) + " is out of range: " + Number(min) + " to " +
        Number(max));
  }

  bool none() const { return count_ == 0; }

  // Ok, or the lines; after the first ten only the number of further ones.
  Status Finish() && {
    if (count_ == 0) return {};
    if (count_ > kMost) lines_.push_back("and " + std::to_string(count_ - kMost) + " more");
    return InvalidArgument(Join(lines_, "\n"));
  }

  static std::string Number(uint64_t value) {
    return value > static_cast<uint64_t>(INT64_MAX) ? std::to_string(value)
                                                    : WithThousands(static_cast<int64_t>(value));
  }

 private:
  static constexpr size_t kMost = 10;

  size_t count_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace longhaul::spec::internal
