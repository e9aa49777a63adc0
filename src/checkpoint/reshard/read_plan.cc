#include "checkpoint/reshard/read_plan.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace longhaul::checkpoint {
namespace {

// A contiguous stretch of a file that goes to one place.
struct Stretch {
  uint32_t file = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t wanted = 0;
  uint64_t to = 0;
};

// Elements before `at` in a row-major box.
int64_t IndexIn(const Box& box, const std::array<int64_t, kMaxDims>& at) {
  int64_t index = 0;
  for (size_t dim = 0; dim < box.dims(); ++dim) {
    index = index * box.extent(dim) + (at[dim] - box.offset(dim));
  }
  return index;
}

// The innermost dimensions in which `part` is all of both boxes are contiguous on both sides; the
// one before them may be partial. Returns the first dimension of a run.
// For example, rows of a matrix that are whole in both boxes form one run; a block of columns gives
// one run for each row.
size_t FirstDimOfRun(const Box& part, const Box& saved, const Box& wanted) {
  size_t dim = part.dims();
  while (dim > 0 && (dim == part.dims() || (part.extent(dim) == saved.extent(dim) &&
                                            part.extent(dim) == wanted.extent(dim)))) {
    --dim;
  }
  return dim;
}

// Appends the runs that carry `part` from a saved shard to a wanted one.
void AddRuns(const Box& part, const SavedShard& saved, const Box& wanted, uint32_t wanted_index,
             uint64_t element_bytes, std::vector<Stretch>& runs) {
  const size_t first = FirstDimOfRun(part, saved.box, wanted);
  uint64_t run_elements = 1;
  for (size_t dim = first; dim < part.dims(); ++dim) {
    run_elements *= static_cast<uint64_t>(part.extent(dim));
  }
  // The dimensions before `first` are counted like the digits of a number, the innermost one
  // fastest.
  std::array<int64_t, kMaxDims> at{};
  for (size_t dim = 0; dim < part.dims(); ++dim) at[dim] = part.offset(dim);
  while (true) {
    Stretch run;
    run.file = saved.file;
    run.offset = saved.file_offset + static_cast<uint64_t>(IndexIn(saved.box, at)) * element_bytes;
    run.bytes = run_elements * element_bytes;
    run.wanted = wanted_index;
    run.to = static_cast<uint64_t>(IndexIn(wanted, at)) * element_bytes;
    runs.push_back(run);
    size_t dim = first;
    while (dim > 0 && ++at[dim - 1] == part.end(dim - 1)) {
      at[dim - 1] = part.offset(dim - 1);
      --dim;
    }
    if (dim == 0) return;
  }
}

// Saved shards of one tensor, by their first dimension's offset, so that few are looked at for a
// wanted box.
class ShardIndex {
 public:
  ShardIndex(std::span<const SavedShard> saved, size_t tensors) : saved_(saved), of_(tensors) {
    for (uint32_t i = 0; i < saved.size(); ++i) {
      CHECK(saved[i].tensor < tensors);
      if (saved[i].box.elements() > 0) of_[saved[i].tensor].push_back(i);
    }
    longest_.resize(tensors);
    for (size_t tensor = 0; tensor < tensors; ++tensor) {
      auto& shards = of_[tensor];
      std::stable_sort(shards.begin(), shards.end(),
                       [&](uint32_t a, uint32_t b) { return Begin(a) < Begin(b); });
      for (const uint32_t shard : shards) {
        longest_[tensor] = std::max(longest_[tensor], End(shard) - Begin(shard));
      }
    }
  }

  // Those that may hold a part of the box, in the order in which they are preferred.
  std::vector<uint32_t> Candidates(uint32_t tensor, const Box& box) const {
    const auto& shards = of_[tensor];
    std::vector<uint32_t> found;
    if (box.dims() == 0) {
      found = shards;
    } else {
      // No shard that begins before `from` can reach into the box, because none is longer than the
      // longest one.
      const int64_t from = box.offset(0) - longest_[tensor];
      auto at =
          std::lower_bound(shards.begin(), shards.end(), from,
                           [&](uint32_t shard, int64_t begin) { return Begin(shard) < begin; });
      for (; at != shards.end() && Begin(*at) < box.end(0); ++at) {
        if (End(*at) > box.offset(0)) found.push_back(*at);
      }
    }
    // The order of the catalog decides which replica is read. It is the same for all ranks, so a
    // common part is read once.
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  int64_t Begin(uint32_t shard) const {
    return saved_[shard].box.dims() == 0 ? 0 : saved_[shard].box.offset(0);
  }
  int64_t End(uint32_t shard) const {
    return saved_[shard].box.dims() == 0 ? 1 : saved_[shard].box.end(0);
  }

  std::span<const SavedShard> saved_;
  std::vector<std::vector<uint32_t>> of_;  // by tensor
  std::vector<int64_t> longest_;           // extent of the first dimension, by tensor
};

// Sorted runs become reads that don't overlap, each with the copies made from it.
void Merge(std::vector<Stretch>& runs, uint64_t largest_gap, ReadPlan& plan) {
  std::sort(runs.begin(), runs.end(), [](const Stretch& a, const Stretch& b) {
    return std::tie(a.file, a.offset, a.wanted, a.to) < std::tie(b.file, b.offset, b.wanted, b.to);
  });
  // Several wanted shards may use the same bytes, and gaps are read without being needed, so both
  // sums are kept.
  uint64_t needed_to = 0;  // bytes of the present read before this are counted as needed
  for (const Stretch& run : runs) {
    const uint64_t end = run.offset + run.bytes;
    Read* last = plan.reads.empty() ? nullptr : &plan.reads.back();
    if (last == nullptr || last->file != run.file ||
        run.offset > last->offset + last->bytes + largest_gap) {
      plan.reads.push_back({run.file, run.offset, 0, plan.copies.size(), 0});
      last = &plan.reads.back();
      needed_to = run.offset;
    }
    plan.bytes_needed += end > needed_to ? end - std::max(needed_to, run.offset) : 0;
    needed_to = std::max(needed_to, end);
    last->bytes = std::max(last->bytes, end - last->offset);
    plan.copies.push_back({run.offset - last->offset, run.bytes, run.wanted, run.to});
    ++last->copies;
  }
  for (const Read& read : plan.reads) plan.bytes_read += read.bytes;
}

}  // namespace

Result<ReadPlan> PlanReads(std::span<const SavedShard> saved, std::span<const WantedShard> wanted,
                           std::span<const uint64_t> element_bytes,
                           std::span<const std::string> names, uint64_t largest_gap) {
  CHECK(element_bytes.size() == names.size());
  const ShardIndex index(saved, names.size());
  ReadPlan plan;
  std::vector<Stretch> runs;
  std::vector<Box> missing;
  std::vector<Box> rest;
  for (uint32_t i = 0; i < wanted.size(); ++i) {
    const WantedShard& want = wanted[i];
    CHECK(want.tensor < names.size());
    if (want.box.elements() == 0) continue;
    plan.bytes_wanted += static_cast<uint64_t>(want.box.elements()) * element_bytes[want.tensor];
    // `missing` holds the boxes that no shard so far has provided. Each shard provides what it
    // intersects, and the rest is left to the next one.
    missing.assign(1, want.box);
    for (const uint32_t shard : index.Candidates(want.tensor, want.box)) {
      if (missing.empty()) break;
      rest.clear();
      for (const Box& hole : missing) {
        const auto part = Intersect(hole, saved[shard].box);
        if (part.has_value()) {
          AddRuns(*part, saved[shard], want.box, i, element_bytes[want.tensor], runs);
        }
        Subtract(hole, saved[shard].box, rest);
      }
      missing.swap(rest);
    }
    if (!missing.empty()) {
      return DataLoss("no saved shard holds " + ToString(missing.front()) + " of " +
                      names[want.tensor]);
    }
  }
  Merge(runs, largest_gap, plan);
  return plan;
}

}  // namespace longhaul::checkpoint
