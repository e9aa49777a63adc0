// Text that a vectorised JSON parser may read: readable memory follows it.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace longhaul::engines::kubernetes {

// The parser reads up to this many bytes after the text, whatever they are.
constexpr size_t kTextPadding = 64;

// A view of text that kTextPadding readable bytes follow. The owner of the memory keeps it alive.
struct PaddedText {
  std::string_view text;
};

// Owns such text.
class PaddedString {
 public:
  PaddedString() : PaddedString(std::string_view()) {}
  explicit PaddedString(std::string_view text) : bytes_(text), size_(text.size()) {
    bytes_.append(kTextPadding, '\0');
  }

  PaddedText view() const { return {std::string_view(bytes_).substr(0, size_)}; }

 private:
  std::string bytes_;
  size_t size_;
};

}  // namespace longhaul::engines::kubernetes
