#include "checkpoint/reshard/box.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::checkpoint {

Box Box::Whole(std::span<const int64_t> shape) {
  const std::array<int64_t, kMaxDims> zeros{};
  CHECK(shape.size() <= kMaxDims);
  return At(std::span(zeros).first(shape.size()), shape);
}

Box Box::At(std::span<const int64_t> offset, std::span<const int64_t> extent) {
  CHECK(offset.size() == extent.size() && offset.size() <= kMaxDims);
  Box box;
  box.dims_ = offset.size();
  for (size_t dim = 0; dim < box.dims_; ++dim) {
    CHECK(offset[dim] >= 0 && extent[dim] >= 0);
    box.offset_[dim] = offset[dim];
    box.extent_[dim] = extent[dim];
  }
  return box;
}

int64_t Box::elements() const {
  int64_t product = 1;
  for (size_t dim = 0; dim < dims_; ++dim) product *= extent_[dim];
  return product;
}

Box Box::Cut(size_t dim, int64_t begin, int64_t end) const {
  CHECK(dim < dims_ && offset_[dim] <= begin && begin <= end && end <= this->end(dim));
  Box cut = *this;
  cut.offset_[dim] = begin;
  cut.extent_[dim] = end - begin;
  return cut;
}

bool Box::Contains(const Box& inner) const {
  CHECK(dims_ == inner.dims_);
  for (size_t dim = 0; dim < dims_; ++dim) {
    if (inner.offset(dim) < offset(dim) || inner.end(dim) > end(dim)) return false;
  }
  return true;
}

bool Box::InsideOf(std::span<const int64_t> shape) const {
  if (shape.size() != dims_) return false;
  for (size_t dim = 0; dim < dims_; ++dim) {
    if (end(dim) > shape[dim]) return false;
  }
  return true;
}

std::string ToString(const Box& box) {
  std::string text = "[";
  for (size_t dim = 0; dim < box.dims(); ++dim) {
    text += (dim > 0 ? ", " : "") + std::to_string(box.offset(dim)) + ":" +
            std::to_string(box.end(dim));
  }
  return text + "]";
}

// Boxes that only touch, or are empty, share no element.
std::optional<Box> Intersect(const Box& a, const Box& b) {
  CHECK(a.dims() == b.dims());
  Box both = a;
  for (size_t dim = 0; dim < a.dims(); ++dim) {
    const int64_t begin = std::max(a.offset(dim), b.offset(dim));
    const int64_t end = std::min(a.end(dim), b.end(dim));
    if (begin >= end) return std::nullopt;
    both = both.Cut(dim, begin, end);
  }
  return both;
}

// Slabs: what lies before and after the hole in the first dimension, then, inside its range there,
// in the second, and so on.
void Subtract(const Box& box, const Box& hole, std::vector<Box>& rest) {
  if (box.elements() == 0) return;
  const std::optional<Box> both = Intersect(box, hole);
  if (!both.has_value()) {
    rest.push_back(box);
    return;
  }
  Box left = box;
  for (size_t dim = 0; dim < box.dims(); ++dim) {
    if (left.offset(dim) < both->offset(dim)) {
      rest.push_back(left.Cut(dim, left.offset(dim), both->offset(dim)));
    }
    if (both->end(dim) < left.end(dim)) {
      rest.push_back(left.Cut(dim, both->end(dim), left.end(dim)));
    }
    // What remains shares the hole's range in this dimension and is cut in the next one. After the
    // last dimension it is the hole itself, which is dropped.
    left = left.Cut(dim, both->offset(dim), both->end(dim));
  }
}

namespace {

// Boxes of [begin, end) within `box`, whose rows from `dim` on are numbered from 0.
// A range of a row-major tensor is a partial first row, whole rows and a partial last row. The
// partial rows are ranges of one dimension less.
void AddRange(const Box& box, size_t dim, int64_t begin, int64_t end, std::vector<Box>& boxes) {
  if (begin >= end) return;
  int64_t row = 1;  // elements of one index of `dim`
  for (size_t inner = dim + 1; inner < box.dims(); ++inner) row *= box.extent(inner);
  const int64_t first = begin / row;
  const int64_t last = end / row;  // the row that `end` lies in
  const auto rows = [&](int64_t from, int64_t to) {
    return box.Cut(dim, box.offset(dim) + from, box.offset(dim) + to);
  };
  if (first == last)
    return AddRange(rows(first, first + 1), dim + 1, begin % row, end % row, boxes);
  const bool whole = begin % row == 0;
  if (!whole) AddRange(rows(first, first + 1), dim + 1, begin % row, row, boxes);
  const int64_t full = whole ? first : first + 1;
  if (full < last) boxes.push_back(rows(full, last));
  if (end % row != 0) AddRange(rows(last, last + 1), dim + 1, 0, end % row, boxes);
}

}  // namespace

std::vector<Box> BoxesOfRange(std::span<const int64_t> shape, int64_t begin, int64_t end) {
  const Box whole = Box::Whole(shape);
  CHECK(0 <= begin && begin <= end && end <= whole.elements());
  std::vector<Box> boxes;
  if (begin == end) return boxes;
  if (shape.empty()) return {whole};
  AddRange(whole, 0, begin, end, boxes);
  return boxes;
}

}  // namespace longhaul::checkpoint
