// Requests as a client encodes them, for tests and the fuzzer's seeds.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::runtime {

// Operation numbers of a dialect; -1: the dialect lacks the operation.
struct StoreCodes {
  int set, compare_set, get, add, check, wait, num_keys, watch, remove, append, multi_get,
      multi_set, cancel_wait, ping, push, pop, length, list_keys = -1, barrier = -1;
};
constexpr StoreCodes kTorch1Codes{0, 1, 2, 3, 4, 5, 6, 7, 8, -1, -1, -1, -1, -1, -1, -1, -1};
constexpr StoreCodes kTorch21Codes{0, 1, 2, 3, 4, 5, 6, -1, 7, 8, 9, 10, 11, -1, -1, -1, -1};
constexpr StoreCodes kTorch2Codes{1,  2,  3,  4,  5,  6,  7,  -1, 8, 9,
                                  10, 11, 12, 13, 14, 15, 16, 17, 18};

inline std::string StoreHello() { return std::string("\x00\xCE\xF7\x85\x3C", 5); }

template <typename Number>
std::string NumberBytes(Number number) {
  std::string bytes(sizeof(Number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(Number));
  return bytes;
}
inline std::string TextBytes(std::string_view text) {
  return NumberBytes(uint64_t{text.size()}) + std::string(text);
}

// Encodes the operation's byte, then its keys and values.
inline std::string RequestBytes(int code, const std::vector<std::string>& texts) {
  std::string bytes(1, static_cast<char>(code));
  for (const std::string& text : texts) bytes += TextBytes(text);
  return bytes;
}
// Encodes the same with the number of items before them.
inline std::string ListRequestBytes(int code, uint64_t items,
                                    const std::vector<std::string>& texts) {
  std::string bytes = std::string(1, static_cast<char>(code)) + NumberBytes(items);
  for (const std::string& text : texts) bytes += TextBytes(text);
  return bytes;
}

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace longhaul::runtime
