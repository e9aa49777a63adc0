#include "engines/kubernetes/protocol/objects/quantity.h"

#include <algorithm>
#include <limits>

#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMaxCharacters = 64;
constexpr __int128 kLimitNano = __int128{std::numeric_limits<int64_t>::max()} * 1'000'000'000;
constexpr int kNanoDigits = 9;
constexpr size_t kLimitDigits = 28;  // of kLimitNano
// Exponents beyond this give the limit or the smallest magnitude, whatever the digits are.
constexpr int64_t kMaxExponent = 1000;

// The scale of a suffix: 10^decimal_exponent * 2^binary_exponent.
struct Scale {
  int64_t decimal_exponent = 0;
  int binary_exponent = 0;
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Returns false when there is no such suffix.
bool ReadScale(std::string_view suffix, Scale* scale) {
  constexpr std::string_view kDecimal = "num kMGTPE";  // the space: 10^0, written without suffix
  constexpr std::string_view kBinary = "KMGTPE";
  if (suffix.empty()) return true;
  if (suffix.size() == 1 && suffix != " ") {
    const size_t at = kDecimal.find(suffix.front());
    if (at == kDecimal.npos) return false;
    scale->decimal_exponent = 3 * (static_cast<int64_t>(at) - 3);
    return true;
  }
  if (suffix.size() == 2 && suffix[1] == 'i') {
    const size_t at = kBinary.find(suffix.front());
    if (at == kBinary.npos) return false;
    scale->binary_exponent = 10 * (static_cast<int>(at) + 1);
    return true;
  }
  if (suffix.front() != 'e' && suffix.front() != 'E') return false;
  suffix.remove_prefix(1);
  const bool negative = suffix.front() == '-';
  if (negative || suffix.front() == '+') suffix.remove_prefix(1);
  if (suffix.empty() || !std::all_of(suffix.begin(), suffix.end(), IsDigit)) return false;
  const Result<int64_t> exponent = ParseInt64(suffix);
  const int64_t magnitude = exponent.ok() ? std::min(*exponent, kMaxExponent) : kMaxExponent;
  scale->decimal_exponent = negative ? -magnitude : magnitude;
  return true;
}

// digits * 10^(exponent - fraction_digits) units in nano-units, rounded up.
__int128 DecimalNano(std::string digits, size_t fraction_digits, int64_t exponent) {
  const size_t first = digits.find_first_not_of('0');
  if (first == digits.npos) return 0;
  digits.erase(0, first);
  const int64_t point = static_cast<int64_t>(digits.size()) -
                        static_cast<int64_t>(fraction_digits) + exponent + kNanoDigits;
  if (point > static_cast<int64_t>(kLimitDigits)) return kLimitNano;
  if (point <= 0) return 1;  // less than a nano-unit
  const size_t whole = static_cast<size_t>(point);
  __int128 nano = 0;
  for (size_t i = 0; i < whole; ++i) {
    nano = nano * 10 + (i < digits.size() ? digits[i] - '0' : 0);
  }
  const bool more = whole < digits.size() && digits.find_first_not_of('0', whole) != digits.npos;
  return std::min(nano + (more ? 1 : 0), kLimitNano);
}

// digits * 10^-fraction_digits * 2^exponent units in nano-units, rounded up.
__int128 BinaryNano(const std::string& digits, size_t fraction_digits, int exponent) {
  const __int128 unit = (__int128{1} << exponent) * 1'000'000'000;
  const size_t whole_digits = digits.size() - fraction_digits;
  __int128 whole = 0;
  for (size_t i = 0; i < whole_digits; ++i) {
    whole = whole * 10 + (digits[i] - '0');
    if (whole > kLimitNano / unit) return kLimitNano;
  }
  // From the last digit on: each step divides by ten and keeps whether anything was cut off.
  __int128 fraction = 0;
  bool more = false;
  for (size_t i = digits.size(); i > whole_digits; --i) {
    fraction += unit * (digits[i - 1] - '0');
    more = more || fraction % 10 != 0;
    fraction /= 10;
  }
  return std::min(whole * unit + fraction + (more ? 1 : 0), kLimitNano);
}

__int128 DivideRoundedUp(__int128 value, __int128 by) {
  const __int128 quotient = value / by;
  return value > 0 && value % by != 0 ? quotient + 1 : quotient;
}

int64_t Clamp(__int128 value) {
  return static_cast<int64_t>(std::clamp<__int128>(value, std::numeric_limits<int64_t>::min(),
                                                   std::numeric_limits<int64_t>::max()));
}

std::string DigitsOf(__int128 value) {
  const bool negative = value < 0;
  if (negative) value = -value;
  std::string digits;
  do {
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
    value /= 10;
  } while (value != 0);
  return negative ? "-" + digits : digits;
}

}  // namespace

Quantity Quantity::FromNano(__int128 nano) {
  Quantity quantity;
  quantity.nano_ = std::clamp(nano, -kLimitNano, kLimitNano);
  return quantity;
}

Quantity Quantity::FromUnits(int64_t units) { return FromNano(kNanoPerUnit * units); }

Result<Quantity> Quantity::Parse(std::string_view text) {
  const auto refuse = [text] {
    return InvalidArgument("'" + Printable(text, kMaxCharacters) +
                           "' is not a quantity, expected a number such as 500m, 2 or 1Gi");
  };
  if (text.size() > kMaxCharacters) return refuse();
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);

  std::string digits;
  size_t fraction_digits = 0;
  bool in_fraction = false;
  while (!rest.empty() && (IsDigit(rest.front()) || (rest.front() == '.' && !in_fraction))) {
    if (rest.front() == '.') {
      in_fraction = true;
    } else {
      digits.push_back(rest.front());
      fraction_digits += in_fraction ? 1 : 0;
    }
    rest.remove_prefix(1);
  }
  Scale scale;
  if (digits.empty() || !ReadScale(rest, &scale)) return refuse();
  const __int128 nano = scale.binary_exponent != 0
                            ? BinaryNano(digits, fraction_digits, scale.binary_exponent)
                            : DecimalNano(digits, fraction_digits, scale.decimal_exponent);
  return FromNano(negative ? -nano : nano);
}

int64_t Quantity::RoundedUpUnits() const { return Clamp(DivideRoundedUp(nano_, kNanoPerUnit)); }

int64_t Quantity::RoundedUpMilliUnits() const {
  return Clamp(DivideRoundedUp(nano_, kNanoPerUnit / 1000));
}

std::string ToString(Quantity quantity) {
  constexpr struct {
    int64_t nano;
    std::string_view suffix;
  } kSuffixes[] = {{1'000'000'000, ""}, {1'000'000, "m"}, {1'000, "u"}};
  for (const auto& [nano, suffix] : kSuffixes) {
    if (quantity.nano_ % nano == 0) return DigitsOf(quantity.nano_ / nano) + std::string(suffix);
  }
  return DigitsOf(quantity.nano_) + "n";
}

}  // namespace longhaul::engines::kubernetes
