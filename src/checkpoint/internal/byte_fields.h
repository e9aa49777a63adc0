// Numbers and texts as packed bytes, for plans and messages between agents: each as it is in
// memory, without padding. Little-endian, so that files and peers agree.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace longhaul::checkpoint::internal {

static_assert(std::endian::native == std::endian::little,
              "states are written as they lie in memory");

template <typename T>
void PutField(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Reads fields from the front of the given bytes; once one is missing, ok() stays false.
class FieldReader {
 public:
  explicit FieldReader(std::string_view rest) : rest_(rest) {}

  template <typename T>
  T Take() {
    T value{};
    const std::string_view bytes = TakeBytes(sizeof(T));
    if (ok_) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::string_view TakeBytes(size_t bytes) {
    ok_ = ok_ && bytes <= rest_.size();
    if (!ok_) return {};
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  // Marks the input as invalid.
  void Fail() { ok_ = false; }

  bool ok() const { return ok_; }
  size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace longhaul::checkpoint::internal
