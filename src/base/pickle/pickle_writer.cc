#include "base/pickle/pickle_writer.h"

#include <bit>
#include <limits>
#include <vector>

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

void PickleWriter::Long(std::string_view decimal) {
  const bool negative = decimal.starts_with('-');
  const std::string_view digits = decimal.substr(negative ? 1 : 0);
  CHECK(!digits.empty() && digits.size() <= 600);  // 250 bytes, of 255 that the opcode holds
  std::vector<uint8_t> bytes = {0};                // little-endian
  for (const char digit : digits) {
    CHECK(digit >= '0' && digit <= '9');
    unsigned carry = static_cast<unsigned>(digit - '0');
    for (uint8_t& byte : bytes) {
      carry += byte * 10U;
      byte = static_cast<uint8_t>(carry & 0xFF);
      carry >>= 8;
    }
    if (carry > 0) bytes.push_back(static_cast<uint8_t>(carry));
  }
  if (bytes.back() >= 0x80) bytes.push_back(0);  // the sign
  unsigned carry = 1;
  for (uint8_t& byte : bytes) {  // two's complement
    if (!negative) break;
    carry += static_cast<uint8_t>(~byte);
    byte = static_cast<uint8_t>(carry & 0xFF);
    carry >>= 8;
  }
  bytes_ += '\x8a';
  bytes_ += static_cast<char>(bytes.size());
  for (const uint8_t byte : bytes) bytes_ += static_cast<char>(byte);
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
