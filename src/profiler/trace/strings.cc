#include "profiler/trace/strings.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"

namespace longhaul::profiler {
namespace {

constexpr size_t kBlock = 64 << 10;
constexpr size_t kFirstSlots = 1024;

}  // namespace

Strings::Strings() : slots_(kFirstSlots) { Add(""); }

// Open addressing with linear probing. A slot holds the id plus 1, so that 0 means empty; the table
// is at most half full, which keeps the probes short. The whole hash is compared before the text.
uint32_t Strings::Add(std::string_view text) {
  const uint64_t hash = Hash64(text);
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
    const uint32_t id = slots_[slot] - 1;
    if (hashes_[id] == hash && views_[id] == text) return id;
  }
  const uint32_t id = size();
  slots_[slot] = id + 1;
  views_.push_back(Keep(text));
  hashes_.push_back(hash);
  if (views_.size() * 2 > slots_.size()) Grow();
  return id;
}

// Blocks never move, so views stay valid while the table grows. What is left of a block is given up
// when a text does not fit.
std::string_view Strings::Keep(std::string_view text) {
  if (text.size() > block_left_) {
    const size_t bytes = std::max(kBlock, text.size());
    blocks_.push_back(std::make_unique<char[]>(bytes));
    block_bytes_ += bytes;
    block_next_ = blocks_.back().get();
    block_left_ = bytes;
  }
  char* const place = block_next_;
  if (!text.empty()) std::memcpy(place, text.data(), text.size());
  block_next_ += text.size();
  block_left_ -= text.size();
  return {place, text.size()};
}

void Strings::Grow() {
  std::vector<uint32_t> wider(slots_.size() * 2);
  const size_t mask = wider.size() - 1;
  for (uint32_t id = 0; id < size(); ++id) {
    size_t slot = hashes_[id] & mask;
    while (wider[slot] != 0) slot = (slot + 1) & mask;
    wider[slot] = id + 1;
  }
  slots_ = std::move(wider);
}

size_t Strings::memory_bytes() const {
  return views_.capacity() * sizeof(views_[0]) + hashes_.capacity() * sizeof(hashes_[0]) +
         slots_.capacity() * sizeof(slots_[0]) + block_bytes_;
}

}  // namespace longhaul::profiler
