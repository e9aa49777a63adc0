#include "checkpoint/formats/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "base/text.h"
#include "checkpoint/formats/catalog_reader.h"
#include "checkpoint/formats/numbers.h"

namespace longhaul::checkpoint {
namespace {

// A multiple of the size of every element type, so each part begins with a whole element.
constexpr uint64_t kCompareBytes = 4 << 20;

std::vector<int64_t> PlaceOf(const std::vector<int64_t>& shape, uint64_t index) {
  std::vector<int64_t> place(shape.size());
  for (size_t dim = shape.size(); dim-- > 0;) {
    place[dim] = static_cast<int64_t>(index % static_cast<uint64_t>(shape[dim]));
    index /= static_cast<uint64_t>(shape[dim]);
  }
  return place;
}

// Compares a stretch of two tensors of one form, whose first element is number `before`.
// Bits are compared first: equal NaNs are equal, and zeros of different sign are not. Values serve
// only to measure a difference.
void CompareBytes(const TensorInfo& tensor, std::span<const std::byte> one,
                  std::span<const std::byte> two, uint64_t before, TensorDifference& difference) {
  if (std::memcmp(one.data(), two.data(), one.size()) == 0) return;
  const uint64_t element = DtypeBytes(tensor.dtype).value_or(1);
  for (size_t i = 0; i < one.size() / element; ++i) {
    if (std::memcmp(one.data() + i * element, two.data() + i * element, element) == 0) continue;
    const double a = NumberAt(tensor.dtype, one, i);
    const double b = NumberAt(tensor.dtype, two, i);
    double absolute = std::fabs(a - b);
    const double larger = std::max(std::fabs(a), std::fabs(b));
    double relative = larger > 0 ? absolute / larger : 0;
    if (!std::isfinite(a) || !std::isfinite(b)) {
      absolute = relative = std::numeric_limits<double>::infinity();
    }
    difference.max_absolute = std::max(difference.max_absolute, absolute);
    difference.max_relative = std::max(difference.max_relative, relative);
    if (difference.differing++ == 0) {
      difference.first_place = PlaceOf(tensor.shape, before + i);
      difference.first_value = a;
      difference.second_value = b;
    }
  }
  if (difference.differing > 0) difference.kind = DifferenceKind::kValues;
}

// Plain values by their place.
void Values(const Tree& node, const std::string& place, std::map<std::string, std::string>& found) {
  const auto [kind, content] = *node.items().begin();
  const std::string prefix = place.empty() ? "" : place + ".";
  if (kind == "i") {
    found[place] = content.get<std::string>();
  } else if (kind == "v" || kind == "f") {
    found[place] = content.dump();
  } else if (kind == "d") {
    for (const Tree& entry : content) {
      const Tree& key = entry[0];
      Values(entry[1], prefix + (key.is_string() ? key.get<std::string>() : key.dump()), found);
    }
  } else if (kind == "l" || kind == "u") {
    size_t i = 0;
    for (const Tree& item : content) Values(item, prefix + std::to_string(i++), found);
  }
}

// Formats without a tree hold no plain values, so there is nothing to compare with those.
std::vector<std::string> CompareValues(const Catalog& first, const Catalog& second) {
  std::vector<std::string> differences;
  if (!first.tree.has_value() || !second.tree.has_value()) return differences;
  std::map<std::string, std::string> one;
  std::map<std::string, std::string> two;
  Values(*first.tree, "", one);
  Values(*second.tree, "", two);
  for (const auto& [place, value] : one) {
    const auto other = two.find(place);
    if (other == two.end()) {
      differences.push_back(place + ": " + value + " here, absent there");
    } else if (other->second != value) {
      differences.push_back(place + ": " + value + " here, " + other->second + " there");
    }
  }
  for (const auto& [place, value] : two) {
    if (one.count(place) == 0) differences.push_back(place + ": absent here, " + value + " there");
  }
  return differences;
}

}  // namespace

bool Comparison::equal() const {
  return values.empty() &&
         std::all_of(tensors.begin(), tensors.end(), [](const TensorDifference& tensor) {
           return tensor.kind == DifferenceKind::kEqual;
         });
}

std::string FormOf(const TensorInfo& tensor) {
  std::vector<std::string> extents;
  for (const int64_t extent : tensor.shape) extents.push_back(std::to_string(extent));
  return tensor.dtype + " [" + Join(extents, ", ") + "]";
}

// By name and not by position, since two formats may order the same tensors differently.
Result<Comparison> CompareCheckpoints(
    io::FileSystem& first_files, const Catalog& first, io::FileSystem& second_files,
    const Catalog& second, const std::function<bool(uint64_t done, uint64_t total)>& progress) {
  std::map<std::string, std::pair<std::optional<uint32_t>, std::optional<uint32_t>>> names;
  for (uint32_t i = 0; i < first.tensors.size(); ++i) names[first.tensors[i].name].first = i;
  for (uint32_t i = 0; i < second.tensors.size(); ++i) names[second.tensors[i].name].second = i;
  CatalogReader read_first(first_files, first);
  CatalogReader read_second(second_files, second);
  Comparison comparison;
  comparison.values = CompareValues(first, second);
  const uint64_t total = first.TotalBytes();
  uint64_t done = 0;
  std::vector<std::byte> one;
  std::vector<std::byte> two;
  for (const auto& [name, at] : names) {
    TensorDifference& difference = comparison.tensors.emplace_back();
    difference.name = name;
    if (at.first) difference.first_form = FormOf(first.tensors[*at.first]);
    if (at.second) difference.second_form = FormOf(second.tensors[*at.second]);
    if (!at.first || !at.second) {
      difference.kind = at.first ? DifferenceKind::kOnlyInFirst : DifferenceKind::kOnlyInSecond;
      continue;
    }
    const TensorInfo& tensor = first.tensors[*at.first];
    if (difference.first_form != difference.second_form) {
      difference.kind = DifferenceKind::kShapeOrDtype;
      continue;
    }
    const uint64_t element = DtypeBytes(tensor.dtype).value_or(1);
    const uint64_t bytes = first.TensorBytes(*at.first);
    difference.elements = bytes / element;
    for (uint64_t from = 0; from < bytes; from += one.size()) {
      one.resize(std::min(kCompareBytes, bytes - from));
      two.resize(one.size());
      const auto index = static_cast<int64_t>(from / element);
      RETURN_IF_ERROR(read_first.ReadRange(*at.first, index, one));
      RETURN_IF_ERROR(read_second.ReadRange(*at.second, index, two));
      CompareBytes(tensor, one, two, from / element, difference);
      done += one.size();
      if (progress && !progress(done, total)) return CancelledError("stopped");
    }
  }
  return comparison;
}

}  // namespace longhaul::checkpoint
