// Reads pickled data: a closed set of opcodes, no code.
//
// A pickle is a program for a small machine, and Python's own reader lets it call anything. This
// one knows numbers, texts, lists, tuples, dictionaries, None and the memo (protocols 2 to 5, as
// pickle.dump writes them); what names a class or calls a function is refused by its opcode. Values
// may be shared, and a list may even hold itself: who walks them must bound the depth.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::profiler {

struct PickleValue {
  enum class Kind : uint8_t { kNone, kBool, kInt, kFloat, kText, kBytes, kList, kTuple, kDict };
  Kind kind = Kind::kNone;
  int64_t integer = 0;
  double real = 0;
  std::string_view text;        // into the pickle
  std::vector<uint32_t> items;  // of a dictionary: key, value, key, value
};

// All values of a pickle; they refer to each other by number.
class Pickle {
 public:
  // `bytes` must outlive the result. kResourceExhausted beyond `max_values`.
  static Result<Pickle> Parse(std::string_view bytes, size_t max_values = 200'000'000);

  const PickleValue& root() const { return values_[root_]; }
  const PickleValue& operator[](uint32_t id) const { return values_[id]; }
  // The value of a text key, or nullptr when `dict` is none or has no such key.
  const PickleValue* Find(const PickleValue& dict, std::string_view key) const;
  int64_t Integer(const PickleValue& dict, std::string_view key, int64_t otherwise) const;
  std::string_view Text(const PickleValue& dict, std::string_view key) const;

 private:
  friend class PickleMachine;
  std::vector<PickleValue> values_;
  uint32_t root_ = 0;
};

}  // namespace longhaul::profiler
