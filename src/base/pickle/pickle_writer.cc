#include "base/pickle/pickle_writer.h"

#include <bit>
#include <limits>

#include "base/check.h"

namespace longhaul {
namespace {

template <typename T>
void Put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

}  // namespace

void PickleWriter::Int(int64_t value) {
  if (value >= 0 && value < 256) {
    bytes_ += 'K';
    bytes_ += static_cast<char>(value);
  } else if (value >= std::numeric_limits<int32_t>::min() &&
             value <= std::numeric_limits<int32_t>::max()) {
    bytes_ += 'J';
    Put(bytes_, static_cast<uint32_t>(value));
  } else {
    bytes_ += "\x8a\x08";
    Put(bytes_, static_cast<uint64_t>(value));
  }
}

void PickleWriter::Float(double value) {
  bytes_ += 'G';
  Put(bytes_, __builtin_bswap64(std::bit_cast<uint64_t>(value)));
}

void PickleWriter::Text(std::string_view utf8) {
  CHECK(utf8.size() <= std::numeric_limits<uint32_t>::max());
  bytes_ += 'X';
  Put(bytes_, static_cast<uint32_t>(utf8.size()));
  bytes_ += utf8;
}

void PickleWriter::Global(std::string_view module, std::string_view name) {
  CHECK(module.find('\n') == module.npos && name.find('\n') == name.npos);
  bytes_ += 'c';
  bytes_ += module;
  bytes_ += '\n';
  bytes_ += name;
  bytes_ += '\n';
}

}  // namespace longhaul
