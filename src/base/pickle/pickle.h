// Reads pickled data: a closed set of opcodes, a closed set of names, no code execution.
//
// A pickle is a program for a small machine, and Python's own reader lets it call any function.
// This reader supports numbers, texts, lists, tuples, dictionaries, None and the memo (protocols 2
// to 5, as pickle.dump writes them; pickletools of Python's library documents the opcodes). Classes
// and functions may be named only where the caller allows each one, and even these are never
// called: an object is returned as its class, its arguments and its state, as values. All other
// input is rejected, with its opcode or name. Values may be shared, and a list may contain itself:
// code that walks them must bound the depth.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul {

struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kBytes,
    kList,
    kTuple,
    kDict,
    kGlobal,      // `text` is the allowed name
    kObject,      // items: the global, the arguments (a tuple), and the states given to it
    kPersistent,  // items: the id, which the surrounding file gives a meaning
  };
  Kind kind = Kind::kNone;
  int64_t integer = 0;
  double real = 0;
  std::string_view text;        // into the pickle, or into the allow-list
  std::vector<uint32_t> items;  // of a dictionary: key, value, key, value
};

// A class or function that a pickle may name.
struct PickleGlobal {
  std::string_view name;  // "collections.OrderedDict": module, dot, name
  // Its objects are dictionaries: the arguments and the state of BUILD are dropped, items are kept.
  bool is_dictionary = false;
};

struct PickleLimits {
  size_t max_values = 200'000'000;
  std::span<const PickleGlobal> allowed{};  // must outlive the result
};

// All values of a pickle; they refer to each other by number.
class Pickle {
 public:
  // `bytes` must outlive the result. kResourceExhausted beyond `limits.max_values`; otherwise
  // kInvalidArgument with the byte and the reason.
  static Result<Pickle> Parse(std::string_view bytes, const PickleLimits& limits = {});

  const PickleValue& root() const { return values_[root_]; }
  const PickleValue& operator[](uint32_t id) const { return values_[id]; }
  // The value of a text key, or nullptr when `dict` is none or has no such key.
  const PickleValue* Find(const PickleValue& dict, std::string_view key) const;
  int64_t Integer(const PickleValue& dict, std::string_view key, int64_t otherwise) const;
  std::string_view Text(const PickleValue& dict, std::string_view key) const;

  // For an object: the name of its class or function, its arguments, its last state (or nullptr).
  // Requires kind kObject.
  std::string_view NameOf(const PickleValue& object) const { return values_[object.items[0]].text; }
  const PickleValue& ArgumentsOf(const PickleValue& object) const {
    return values_[object.items[1]];
  }
  const PickleValue* StateOf(const PickleValue& object) const {
    return object.items.size() > 2 ? &values_[object.items.back()] : nullptr;
  }

 private:
  friend class PickleMachine;
  std::vector<PickleValue> values_;
  uint32_t root_ = 0;
};

}  // namespace longhaul
