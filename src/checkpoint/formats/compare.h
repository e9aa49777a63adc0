// Compares two checkpoints tensor by tensor, of any formats and layouts.
//
// Elements are equal when their bits are. Differences of values are absolute, and relative to the
// larger of the two; infinite where one is not finite. Values beside the tensors (steps,
// hyperparameters) are compared as text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/formats/catalog.h"
#include "io/files/file.h"

namespace longhaul::checkpoint {

enum class DifferenceKind { kEqual, kValues, kShapeOrDtype, kOnlyInFirst, kOnlyInSecond };

struct TensorDifference {
  std::string name;
  DifferenceKind kind = DifferenceKind::kEqual;
  std::string first_form;  // "F32 [3, 4]"; empty if missing
  std::string second_form;
  uint64_t elements = 0;
  uint64_t differing = 0;
  double max_absolute = 0;
  double max_relative = 0;
  std::vector<int64_t> first_place;  // indexes of the first element that differs
  double first_value = 0;            // its value in the first checkpoint
  double second_value = 0;
};

struct Comparison {
  std::vector<TensorDifference> tensors;  // by name
  std::vector<std::string> values;        // "lr: 0.1 here, 0.2 there"
  bool equal() const;
};

// "F32 [3, 4]".
std::string FormOf(const TensorInfo& tensor);

// Calls `progress` as WriteOptions does.
Result<Comparison> CompareCheckpoints(
    io::FileSystem& first_files, const Catalog& first, io::FileSystem& second_files,
    const Catalog& second, const std::function<bool(uint64_t done, uint64_t total)>& progress);

}  // namespace longhaul::checkpoint
