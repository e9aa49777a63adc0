// Texts stored once, under a number: kernel names repeat a hundred thousand times in a trace.
//
// Numbers are dense from 0, which is the empty text, in the order of first use. Bytes are in blocks
// that never move, so views stay valid as long as the table lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace longhaul::profiler {

class Strings {
 public:
  Strings();
  Strings(Strings&&) = default;
  Strings& operator=(Strings&&) = default;

  // The number of `text`, which is added if it is new.
  uint32_t Add(std::string_view text);
  // Requires id < size().
  std::string_view operator[](uint32_t id) const { return views_[id]; }
  uint32_t size() const { return static_cast<uint32_t>(views_.size()); }
  size_t memory_bytes() const;

 private:
  std::string_view Keep(std::string_view text);
  void Grow();

  std::vector<std::string_view> views_;
  std::vector<uint64_t> hashes_;
  std::vector<uint32_t> slots_;  // id + 1, 0 is free; a power of two of them
  std::vector<std::unique_ptr<char[]>> blocks_;
  size_t block_left_ = 0;
  char* block_next_ = nullptr;
  size_t block_bytes_ = 0;
};

}  // namespace longhaul::profiler
