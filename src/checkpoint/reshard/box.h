// Boxes: the part of a tensor in a shard, and operations on them.
//
// A tensor is a global shape; a shard of it is a box: an offset and an extent in every dimension,
// its bytes row-major. Everything is counted in elements. Leaves out dtypes and files.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/state.h"

namespace longhaul::checkpoint {

class Box {
 public:
  Box() = default;  // of a scalar: no dimensions, one element

  // All of a tensor. Requires at most kMaxDims dimensions, none negative.
  static Box Whole(std::span<const int64_t> shape);
  // Requires offsets and extents of the same length, at most kMaxDims, none negative.
  static Box At(std::span<const int64_t> offset, std::span<const int64_t> extent);

  size_t dims() const { return dims_; }
  int64_t offset(size_t dim) const { return offset_[dim]; }
  int64_t extent(size_t dim) const { return extent_[dim]; }
  int64_t end(size_t dim) const { return offset_[dim] + extent_[dim]; }
  std::vector<int64_t> shape() const { return {extent_.begin(), extent_.begin() + dims_}; }
  std::vector<int64_t> offsets() const { return {offset_.begin(), offset_.begin() + dims_}; }
  int64_t elements() const;

  // Returns the box cut to [begin, end) in one dimension. Requires offset <= begin <= end <= end().
  Box Cut(size_t dim, int64_t begin, int64_t end) const;
  // Requires the same number of dimensions.
  bool Contains(const Box& inner) const;
  bool InsideOf(std::span<const int64_t> shape) const;

  friend bool operator==(const Box&, const Box&) = default;

 private:
  size_t dims_ = 0;
  std::array<int64_t, kMaxDims> offset_{};
  std::array<int64_t, kMaxDims> extent_{};
};

// "[0:4, 128:256]": for messages.
std::string ToString(const Box& box);

// Returns nothing when they share no element. Requires the same number of dimensions.
std::optional<Box> Intersect(const Box& a, const Box& b);

// Appends the part of `box` outside `hole`: at most two boxes for each dimension, none overlapping.
void Subtract(const Box& box, const Box& hole, std::vector<Box>& rest);

// Returns the elements [begin, end) of a row-major tensor as boxes in ascending order, at most two
// for each dimension: one rank's part of a flat buffer in ZeRO or FSDP. Requires 0 <= begin <= end
// <= the tensor's elements.
std::vector<Box> BoxesOfRange(std::span<const int64_t> shape, int64_t begin, int64_t end);

}  // namespace longhaul::checkpoint
