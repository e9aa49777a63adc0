#include "profiler/read/json_event.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace longhaul::profiler {
namespace {

constexpr int64_t kMaxMicroseconds = std::numeric_limits<int64_t>::max() / 1000 - 1;

// The next of '"', '\\' and line end from p on; may read up to 15 bytes after `end`, and returns a
// position not before `end` if there is none before it.
inline const char* FindInString(const char* p, const char* end) {
#ifdef __SSE2__
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i slash = _mm_set1_epi8('\\');
  const __m128i line = _mm_set1_epi8('\n');
  for (; p < end; p += 16) {
    const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i hits =
        _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(text, quote), _mm_cmpeq_epi8(text, slash)),
                     _mm_cmpeq_epi8(text, line));
    const unsigned mask = static_cast<unsigned>(_mm_movemask_epi8(hits));
    if (mask != 0) return p + std::countr_zero(mask);
  }
  return p;
#else
  while (p < end && *p != '"' && *p != '\\' && *p != '\n') ++p;
  return p;
#endif
}

// The next quote or bracket of any kind from p on, in the manner of FindInString.
inline const char* FindStructure(const char* p, const char* end) {
#ifdef __SSE2__
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i open = _mm_set1_epi8('{');  // '[' with bit 5 set, as ']' becomes '}'
  const __m128i close = _mm_set1_epi8('}');
  const __m128i bit = _mm_set1_epi8(0x20);
  for (; p < end; p += 16) {
    const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i folded = _mm_or_si128(text, bit);
    const __m128i hits =
        _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(folded, open), _mm_cmpeq_epi8(folded, close)),
                     _mm_cmpeq_epi8(text, quote));
    const unsigned mask = static_cast<unsigned>(_mm_movemask_epi8(hits));
    if (mask != 0) return p + std::countr_zero(mask);
  }
  return p;
#else
  while (p < end && *p != '"' && (*p | 0x20) != '{' && (*p | 0x20) != '}') ++p;
  return p;
#endif
}

// A function that returns false has either met an error (what_ is set) or the end of the text
// (what_ is null); the caller then provides more text and begins the object again.
class Scanner {
 public:
  Scanner(const char* begin, const char* end) : p_(begin), end_(end) {}

  ScanResult Event(RawEvent* event) {
    const bool good = Object([this, event](std::string_view key) { return Field(key, event); });
    return Done(good);
  }
  ScanResult Any() { return Done(Value()); }

 private:
  ScanResult Done(bool good) const {
    if (good) return {Scan::kOk, p_, nullptr};
    return {what_ == nullptr ? Scan::kNeedMore : Scan::kBad, p_, what_};
  }
  // Fails: without a reason, the text ended.
  bool Bad(const char* what) {
    what_ = what;
    return false;
  }
  bool Space() {
    if (p_<end_&& * p_> ' ') return true;
    p_ = SkipSpace(p_, end_);
    return p_ < end_;
  }

  // Requires *p_ == '"'. `text` is what stands between the quotes.
  bool String(std::string_view* text) {
    const char* const begin = ++p_;
    for (;;) {
      p_ = FindInString(p_, end_);
      if (p_ >= end_) return false;
      if (*p_ == '"') break;
      if (*p_ == '\n') return Bad("a line ends inside a string");
      p_ += 2;  // a backslash and what it escapes
    }
    *text = {begin, static_cast<size_t>(p_ - begin)};
    ++p_;
    return true;
  }

  // Requires that *p_ opens an object or array. Brackets of both kinds count alike.
  bool Container() {
    int64_t depth = 0;
    for (;;) {
      p_ = FindStructure(p_, end_);
      if (p_ >= end_) return false;
      if (*p_ == '"') {
        std::string_view ignored;
        if (!String(&ignored)) return false;
        continue;
      }
      depth += (*p_ | 0x20) == '{' ? 1 : -1;
      ++p_;
      if (depth == 0) return true;
    }
  }

  // Number, true, null, NaN: all up to a separator.
  bool Scalar(std::string_view* text) {
    const char* const begin = p_;
    while (p_ < end_ && *p_ != ',' && *p_ != '}' && *p_ != ']' && *p_ > ' ') {
      if (*p_ == '"' || *p_ == '{' || *p_ == '[') return Bad("a value without its separator");
      ++p_;
    }
    if (p_ >= end_) return false;
    if (p_ == begin) return Bad("a value is missing");
    *text = {begin, static_cast<size_t>(p_ - begin)};
    return true;
  }

  bool Value() {
    std::string_view ignored;
    if (*p_ == '"') return String(&ignored);
    if (*p_ == '{' || *p_ == '[') return Container();
    return Scalar(&ignored);
  }

  bool Raw(std::string_view* text) {
    const char* const begin = p_;
    if (!Value()) return false;
    *text = {begin, static_cast<size_t>(p_ - begin)};
    return true;
  }

  // The string, or nothing for a value of another kind.
  bool Text(std::string_view* text) {
    if (*p_ == '"') return String(text);
    return Value();
  }

  // A whole number; what isn't one leaves `number` alone.
  bool Integer(int64_t* number) {
    if (*p_ == '"' || *p_ == '{' || *p_ == '[') return Value();
    std::string_view text;
    if (!Scalar(&text)) return false;
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) *number = value;
    return true;
  }

  bool Time(int64_t* nanoseconds, bool* fraction, bool* present) {
    if (*p_ == '"' || *p_ == '{' || *p_ == '[') return Value();
    std::string_view text;
    if (!Scalar(&text)) return false;
    *present = ParseMicroseconds(text, nanoseconds, fraction);
    return true;
  }

  // Requires *p_ == '{'. Calls `field` with each key, with p_ at its value.
  template <typename FieldReader>
  bool Object(FieldReader field) {
    ++p_;
    for (;;) {
      if (!Space()) return false;
      if (*p_ == '}') {
        ++p_;
        return true;
      }
      if (*p_ == ',') {  // also of an empty member
        ++p_;
        continue;
      }
      if (*p_ != '"') return Bad("a key is missing its quote");
      std::string_view key;
      if (!String(&key) || !Space()) return false;
      if (*p_ != ':') return Bad("a key is missing its colon");
      ++p_;
      if (!Space()) return false;
      if (!field(key) || !Space()) return false;
      if (*p_ != ',' && *p_ != '}') return Bad("a value is followed by neither comma nor brace");
    }
  }

  // The length of the key selects a few candidates, so most keys cost no comparison of text.
  bool Field(std::string_view key, RawEvent* event) {
    switch (key.size()) {
      case 2:
        if (key == "ph") {
          std::string_view phase;
          if (!Text(&phase)) return false;
          event->phase = phase.size() == 1 ? phase[0] : '?';
          return true;
        }
        if (key == "ts") return Time(&event->time_ns, &event->fraction, &event->has_time);
        break;
      case 3:
        if (key == "cat") return Text(&event->category);
        if (key == "pid") return Raw(&event->pid);
        if (key == "tid") return Raw(&event->tid);
        if (key == "dur") {
          bool ignored = false;
          return Time(&event->duration_ns, &ignored, &event->has_duration);
        }
        break;
      case 4:
        if (key == "name") return Text(&event->name);
        if (key == "args") return Args(event);
        break;
    }
    return Value();
  }

  bool Args(RawEvent* event) {
    // Of a Python frame nothing is wanted, and of a flow neither.
    const bool wanted = event->category != "python_function" && *p_ == '{' &&
                        (event->phase == 'X' || event->phase == 'M' || event->phase == 0);
    if (!wanted) return Value();
    return Object([this, event](std::string_view key) { return Argument(key, event); });
  }

  bool Note(std::string_view* text, RawEvent* event) {
    event->has_note = true;
    return Text(text);
  }

  bool Argument(std::string_view key, RawEvent* event) {
    switch (key.size()) {
      case 3:
        if (key == "Seq") return Integer(&event->sequence);
        break;
      case 4:
        if (key == "name") return Text(&event->labels);
        break;
      case 5:
        if (key == "bytes") return Integer(&event->bytes);
        if (key == "dtype") return Text(&event->dtype);
        if (key == "Sizes") return Text(&event->sizes);
        if (key == "Layer") return Integer(&event->layer);
        break;
      case 6:
        if (key == "stream") {
          event->has_stream = true;
          return Value();
        }
        if (key == "labels") return Text(&event->labels);
        if (key == "CPU ns") return Integer(&event->cpu_ns);
        break;
      case 8:
        if (key == "Operator") {
          event->has_operator = true;
          return Text(&event->model_operator);
        }
        if (key == "Src Rank") return Integer(&event->source_rank);
        if (key == "Dst Rank") return Integer(&event->destination_rank);
        break;
      case 9:
        if (key == "Direction") return Text(&event->direction);
        break;
      case 10:
        if (key == "Input Dims") return Raw(&event->shapes);
        if (key == "Input type") return Raw(&event->types);
        if (key == "Group size") return Integer(&event->group_size);
        break;
      case 11:
        if (key == "correlation") return Integer(&event->correlation);
        if (key == "External id" || key == "external id") return Integer(&event->external);
        if (key == "Micro batch") return Integer(&event->micro_batch);
        break;
      case 13:
        if (key == "In msg nelems") return Integer(&event->in_elements);
        break;
      case 14:
        if (key == "Out msg nelems") return Integer(&event->out_elements);
        break;
      case 15:
        if (key == "Collective name") return Note(&event->collective, event);
        break;
      case 17:
        if (key == "Global rank start") return Integer(&event->rank_start);
        break;
      case 18:
        if (key == "Process Group Name") return Text(&event->group_name);
        if (key == "Global rank stride") return Integer(&event->rank_stride);
        break;
      case 19:
        if (key == "Process Group Ranks") return Text(&event->group_ranks);
        break;
      case 25:
        if (key == "Process Group Description") return Text(&event->group_description);
        break;
    }
    return Value();
  }

  const char* p_;
  const char* const end_;
  const char* what_ = nullptr;
};

int Hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The four hex digits at the front, or -1.
int CodeUnit(std::string_view text) {
  if (text.size() < 4) return -1;
  int unit = 0;
  for (size_t i = 0; i < 4; ++i) {
    const int digit = Hex(text[i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

void AppendUtf8(uint32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xC0 | (c >> 6)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else {
    // A lone surrogate becomes U+FFFD; pairs do not occur in names of kernels.
    if (c >= 0xD800 && c < 0xE000) c = 0xFFFD;
    out->push_back(static_cast<char>(0xE0 | (c >> 12)));
    out->push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

}  // namespace

ScanResult ScanEvent(const char* begin, const char* end, RawEvent* event) {
  return Scanner(begin, end).Event(event);
}

ScanResult SkipValue(const char* begin, const char* end) { return Scanner(begin, end).Any(); }

bool ParseMicroseconds(std::string_view text, int64_t* nanoseconds, bool* fraction) {
  const char* p = text.data();
  const char* const end = p + text.size();
  const bool negative = p < end && *p == '-';
  if (negative) ++p;
  const char* const digits = p;
  int64_t whole = 0;
  // Digits are read as integers: a double has too few bits for the nanoseconds of a time since
  // 1970.
  while (p < end && *p >= '0' && *p <= '9' && whole <= kMaxMicroseconds) {
    whole = whole * 10 + (*p++ - '0');
  }
  if (p == digits || whole > kMaxMicroseconds) return false;
  int64_t part = 0;
  int places = 0;
  if (p < end && *p == '.') {
    for (++p; p < end && *p >= '0' && *p <= '9'; ++p) {
      if (places < 3) {
        part = part * 10 + (*p - '0');
        ++places;
      }
    }
    *fraction = true;
  }
  // A number with an exponent is rare; it goes through a double and loses the digits beyond its
  // precision.
  if (p < end && (*p == 'e' || *p == 'E')) {
    double value = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end) return false;
    if (!(std::abs(value) < static_cast<double>(kMaxMicroseconds))) return false;
    *nanoseconds = static_cast<int64_t>(std::llround(value * 1000));
    return true;
  }
  if (p != end) return false;
  for (; places < 3; ++places) part *= 10;
  const int64_t value = whole * 1000 + part;
  *nanoseconds = negative ? -value : value;
  return true;
}

std::string Unescape(std::string_view raw) {
  std::string text;
  text.reserve(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 == raw.size()) {
      text.push_back(raw[i]);
      continue;
    }
    const char c = raw[++i];
    const int unit = c == 'u' ? CodeUnit(raw.substr(i + 1)) : -1;
    if (unit >= 0) {
      AppendUtf8(static_cast<uint32_t>(unit), &text);
      i += 4;
    } else if (c == 'n') {
      text.push_back('\n');
    } else if (c == 't') {
      text.push_back('\t');
    } else if (c == 'r') {
      text.push_back('\r');
    } else if (c == '"' || c == '\\' || c == '/') {
      text.push_back(c);
    } else {
      // A Windows path without escapes.
      text.push_back('\\');
      text.push_back(c);
    }
  }
  return text;
}

}  // namespace longhaul::profiler
