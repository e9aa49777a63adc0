#include "spec/internal/job_schema.h"

#include <array>
#include <charconv>
#include <iterator>

#include "base/text.h"

namespace longhaul::spec::internal {

namespace {

std::string Thousands(uint64_t number) {
  // Only a seed has such a limit.
  if (number > static_cast<uint64_t>(INT64_MAX)) return std::to_string(number);
  return WithThousands(static_cast<int64_t>(number));
}

// Lists the keys without looking at a value.
class KeyLister {
 public:
  std::vector<KeyInfo> keys;

  template <typename Body>
  void Section(const char* key, Body body) {
    prefix_ = std::string(key) + ".";
    body();
    prefix_.clear();
  }
  void Constant(const char* key, const char* text) { Add(key, "only " + std::string(text)); }
  template <typename T>
  void Whole(const char* key, const T&, uint64_t min, uint64_t max) {
    Add(key, LimitsText(min, max));
  }
  void AutoWhole(const char* key, const auto&, uint64_t min, uint64_t max) {
    Add(key, "auto, or " + LimitsText(min, max));
  }
  void Flag(const char* key, bool) { Add(key, "true or false"); }
  void Real(const char* key, double, const RealRange& range) { Add(key, LimitsText(range)); }
  void Size(const char* key, uint64_t, uint64_t min, uint64_t max) {
    Add(key, SizeLimitsText(min, max));
  }
  void AutoSize(const char* key, const auto&, uint64_t min, uint64_t max) {
    Add(key, "auto, or " + SizeLimitsText(min, max));
  }
  void Text(const char* key, const std::string&, size_t limit) {
    Add(key, "at most " + Thousands(limit) + " bytes");
  }
  void TextList(const char* key, const std::vector<std::string>&, size_t limit,
                size_t most = kMaxListItems) {
    Add(key, "at most " + Thousands(most) + " texts of 1 to " + Thousands(limit) + " bytes");
  }
  void After(const char* key, const auto&) {
    Add(key, "at most " + Thousands(kMaxDependencies) + " jobs");
  }
  void Topology(const char* key, const auto&) {
    Add(key, "a level of at most " + Thousands(kMaxNameBytes) + " bytes, or a map");
  }
  void Names(const char* key, const auto&) {
    Add(key, "at most " + Thousands(kMaxLabels) + " texts of 1 to " + Thousands(kMaxNameBytes) +
                 " bytes");
  }
  void Labels(const char* key, const auto&) {
    Add(key, "at most " + Thousands(kMaxLabels) + " pairs of texts of 1 to " +
                 Thousands(kMaxNameBytes) + " bytes");
  }
  void Environment(const char* key, const auto&) {
    Add(key, "at most " + Thousands(kMaxListItems) + " texts of at most " +
                 Thousands(kMaxEnvironmentBytes) + " bytes");
  }
  void Faults(const char* key, const auto&) { Add(key, "at most 1,000 faults"); }

 private:
  void Add(const char* key, std::string limits) { keys.push_back({prefix_ + key, limits}); }

  std::string prefix_;
};

}  // namespace

std::string LimitsText(uint64_t min, uint64_t max) {
  if (min == max) return "only " + Thousands(min);
  return Thousands(min) + " to " + Thousands(max);
}

std::string LimitsText(const RealRange& range) {
  const std::string min = ShortestText(range.min);
  const std::string max = ShortestText(range.max);
  if (!range.min_open && !range.max_open) return min + " to " + max;
  return (range.min_open ? "above " : "at least ") + min +
         (range.max_open ? ", below " : ", at most ") + max;
}

std::string SizeLimitsText(uint64_t min, uint64_t max) {
  return SizeText(min) + " to " + SizeText(max);
}

std::string ShortestText(double number) {
  std::array<char, 32> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return error == std::errc() ? std::string(buffer.data(), end) : std::string("0");
}

std::string SizeText(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes != 0 && bytes % 1'024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1'024;
    ++unit;
  }
  return std::to_string(bytes) + kUnits[unit];
}

std::vector<KeyInfo> JobKeys() {
  KeyLister lister;
  const JobSpec job;
  VisitJob(lister, job);
  return std::move(lister.keys);
}

}  // namespace longhaul::spec::internal
