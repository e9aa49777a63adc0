#include "base/pickle/pickle.h"

#include <bit>
#include <cstdio>
#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/text.h"

namespace longhaul {
namespace {

constexpr uint32_t kMark = UINT32_MAX;

}  // namespace

class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, const PickleLimits& limits)
      : bytes_(bytes), limits_(limits) {}

  Result<Pickle> Run() {
    for (;;) {
      if (at_ >= bytes_.size()) return Broken("it ends without a stop");
      if (out_.values_.size() > limits_.max_values) {
        return ResourceExhausted("the pickle has more than " + std::to_string(limits_.max_values) +
                                 " values");
      }
      const auto opcode = static_cast<uint8_t>(bytes_[at_++]);
      if (opcode == '.') break;
      if (!Step(opcode)) return Broken(what_);
    }
    if (stack_.empty() || stack_.back() == kMark) return Broken("nothing is left at its stop");
    out_.root_ = stack_.back();
    return std::move(out_);
  }

 private:
  using Kind = PickleValue::Kind;

  Status Broken(const std::string& what) const {
    return InvalidArgument("not a pickle of plain data at byte " + std::to_string(at_) + ": " +
                           what);
  }
  bool Bad(std::string what) {
    what_ = std::move(what);
    return false;
  }

  // A little-endian number of the next `size` bytes.
  bool Number(size_t size, uint64_t* number) {
    if (bytes_.size() - at_ < size) return Bad("it is cut");
    *number = 0;
    for (size_t i = 0; i < size; ++i) {
      *number |= uint64_t{static_cast<uint8_t>(bytes_[at_ + i])} << (8 * i);
    }
    at_ += size;
    return true;
  }

  bool Push(PickleValue value) {
    stack_.push_back(static_cast<uint32_t>(out_.values_.size()));
    out_.values_.push_back(std::move(value));
    return true;
  }
  bool PushInt(int64_t integer, Kind kind = Kind::kInt) {
    PickleValue value;
    value.kind = kind;
    value.integer = integer;
    return Push(std::move(value));
  }
  bool PushEmpty(Kind kind) {
    PickleValue value;
    value.kind = kind;
    return Push(std::move(value));
  }

  bool Fixed(size_t size, bool is_signed) {
    uint64_t number = 0;
    if (!Number(size, &number)) return false;
    if (is_signed && size == 4) return PushInt(static_cast<int32_t>(number));
    return PushInt(static_cast<int64_t>(number));
  }

  // Texts and bytes, with a length of `size` bytes before them.
  bool Counted(size_t size, Kind kind) {
    uint64_t length = 0;
    if (!Number(size, &length)) return false;
    if (length > bytes_.size() - at_) return Bad("a text is longer than the file");
    PickleValue value;
    value.kind = kind;
    value.text = bytes_.substr(at_, length);
    at_ += length;
    return Push(std::move(value));
  }

  // An integer of any length; one beyond 64 bits is refused.
  bool Long(size_t size) {
    uint64_t length = 0;
    if (!Number(size, &length)) return false;
    if (length > bytes_.size() - at_) return Bad("it is cut");
    // An unsigned 64-bit address takes nine bytes, of which the last is zero.
    const bool nine = length == 9 && bytes_[at_ + 8] == 0;
    if (length > 8 && !nine) return Bad("an integer beyond 64 bits");
    uint64_t number = 0;
    if (!Number(nine ? 8 : length, &number)) return false;
    if (nine)
      ++at_;
    else if (length > 0 && length < 8 && (number >> (8 * length - 1) & 1) != 0) {
      number |= ~uint64_t{0} << (8 * length);
    }
    return PushInt(static_cast<int64_t>(number));
  }

  // Takes what lies above the last mark, and the mark.
  bool PopMark(std::vector<uint32_t>* items) {
    size_t mark = stack_.size();
    while (mark > 0 && stack_[mark - 1] != kMark) --mark;
    if (mark == 0) return Bad("a mark is missing");
    items->assign(stack_.begin() + static_cast<ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark - 1);
    return true;
  }

  bool PopTop(size_t count, std::vector<uint32_t>* items) {
    if (stack_.size() < count) return Bad("the stack is empty");
    items->assign(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    for (const uint32_t item : *items) {
      if (item == kMark) return Bad("a mark in place of a value");
    }
    stack_.resize(stack_.size() - count);
    return true;
  }

  bool AddTo(Kind kind, const std::vector<uint32_t>& items) {
    if (stack_.empty() || stack_.back() == kMark) return Bad("nothing to add to");
    PickleValue& target = out_.values_[stack_.back()];
    if (target.kind != kind) return Bad("adds to a value of another kind");
    if (kind == Kind::kDict && items.size() % 2 != 0) return Bad("a key without its value");
    target.items.insert(target.items.end(), items.begin(), items.end());
    return true;
  }

  bool Tuple(std::vector<uint32_t> items) {
    PickleValue value;
    value.kind = Kind::kTuple;
    value.items = std::move(items);
    return Push(std::move(value));
  }

  bool Put(uint64_t key) {
    if (stack_.empty() || stack_.back() == kMark) return Bad("nothing to remember");
    memo_[key] = stack_.back();
    return true;
  }
  bool Get(size_t size) {
    uint64_t key = 0;
    if (!Number(size, &key)) return false;
    const auto found = memo_.find(key);
    if (found == memo_.end()) return Bad("it recalls what it never remembered");
    stack_.push_back(found->second);
    return true;
  }

  bool Real() {
    uint64_t bits = 0;
    if (!Number(8, &bits)) return false;
    PickleValue value;
    value.kind = Kind::kFloat;
    value.real = std::bit_cast<double>(__builtin_bswap64(bits));
    return Push(std::move(value));
  }

  // Opcodes that push one value; sets `known` if this is one.
  bool StepValue(uint8_t opcode, bool* known) {
    *known = true;
    switch (opcode) {
      case '}':
        return PushEmpty(Kind::kDict);
      case ']':
        return PushEmpty(Kind::kList);
      case ')':
        return PushEmpty(Kind::kTuple);
      case 'N':
        return PushEmpty(Kind::kNone);
      case 0x88:
      case 0x89:
        return PushInt(opcode == 0x88 ? 1 : 0, Kind::kBool);
      case 'J':
        return Fixed(4, true);
      case 'K':
        return Fixed(1, false);
      case 'M':
        return Fixed(2, false);
      case 0x8a:
        return Long(1);
      case 0x8b:
        return Long(4);
      case 'G':
        return Real();
      case 0x8c:
        return Counted(1, Kind::kText);
      case 'X':
        return Counted(4, Kind::kText);
      case 0x8d:
        return Counted(8, Kind::kText);
      case 'C':
        return Counted(1, Kind::kBytes);
      case 'B':
        return Counted(4, Kind::kBytes);
      case 0x8e:
        return Counted(8, Kind::kBytes);
      default:
        *known = false;
        return true;
    }
  }

  bool Step(uint8_t opcode) {
    bool known = false;
    if (!StepValue(opcode, &known)) return false;
    if (known) return true;
    uint64_t number = 0;
    std::vector<uint32_t> items;
    switch (opcode) {
      case 0x80:
        return Number(1, &number) && (number <= 5 || Bad("a protocol above 5"));
      case 0x95:  // frame
        return Number(8, &number);
      case '(':
        stack_.push_back(kMark);
        return true;
      case '0':
        return PopTop(1, &items);
      case '1':
        return PopMark(&items);
      case 'a':
        return PopTop(1, &items) && AddTo(Kind::kList, items);
      case 'e':
        return PopMark(&items) && AddTo(Kind::kList, items);
      case 's':
        return PopTop(2, &items) && AddTo(Kind::kDict, items);
      case 'u':
        return PopMark(&items) && AddTo(Kind::kDict, items);
      case 't':
        return PopMark(&items) && Tuple(std::move(items));
      case 0x85:
      case 0x86:
      case 0x87:
        return PopTop(opcode - 0x84u, &items) && Tuple(std::move(items));
      case 0x94:
        return Put(memo_.size());
      case 'q':
        return Number(1, &number) && Put(number);
      case 'r':
        return Number(4, &number) && Put(number);
      case 'h':
        return Get(1);
      case 'j':
        return Get(4);
      default:
        return StepObject(opcode);
    }
  }

  // Opcodes of classes and functions, where the caller allows any.
  bool StepObject(uint8_t opcode) {
    if (limits_.allowed.empty()) return Refuse(opcode);
    std::vector<uint32_t> items;
    switch (opcode) {
      case 'c': {
        std::string_view module;
        std::string_view name;
        return Line(&module) && Line(&name) && Global(module, name);
      }
      case 0x93: {
        if (!PopTop(2, &items)) return false;
        const PickleValue& module = out_.values_[items[0]];
        const PickleValue& name = out_.values_[items[1]];
        if (module.kind != Kind::kText || name.kind != Kind::kText) return Bad("a name is no text");
        return Global(module.text, name.text);
      }
      case 'R':
      case 0x81:
        return PopTop(2, &items) && Object(items[0], items[1]);
      case 'b':
        return PopTop(1, &items) && Build(items[0]);
      case 'Q': {
        if (!PopTop(1, &items)) return false;
        PickleValue value;
        value.kind = Kind::kPersistent;
        value.items = std::move(items);
        return Push(std::move(value));
      }
      default:
        return Refuse(opcode);
    }
  }

  bool Line(std::string_view* line) {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) return Bad("it is cut");
    *line = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return true;
  }

  bool Global(std::string_view module, std::string_view name) {
    for (size_t i = 0; i < limits_.allowed.size(); ++i) {
      const std::string_view known = limits_.allowed[i].name;
      if (known.size() != module.size() + 1 + name.size() || !known.starts_with(module) ||
          known[module.size()] != '.' || !known.ends_with(name)) {
        continue;
      }
      PickleValue value;
      value.kind = Kind::kGlobal;
      value.text = known;
      value.integer = static_cast<int64_t>(i);
      return Push(std::move(value));
    }
    return Bad("it names " + Printable(module) + "." + Printable(name) +
               ", which is not on the list of what it may name; save it again without that, as "
               "tensors, numbers, texts, lists and dictionaries");
  }

  // Nothing is called: an object is what it would be made from.
  bool Object(uint32_t global, uint32_t arguments) {
    const PickleValue& what = out_.values_[global];
    if (what.kind != Kind::kGlobal) return Bad("it calls what is no function");
    if (out_.values_[arguments].kind != Kind::kTuple) return Bad("arguments are no tuple");
    PickleValue value;
    if (limits_.allowed[static_cast<size_t>(what.integer)].is_dictionary) {
      value.kind = Kind::kDict;
    } else {
      value.kind = Kind::kObject;
      value.items = {global, arguments};
    }
    return Push(std::move(value));
  }

  bool Build(uint32_t state) {
    if (stack_.empty() || stack_.back() == kMark) return Bad("nothing to build");
    PickleValue& target = out_.values_[stack_.back()];
    if (target.kind == Kind::kDict) return true;
    if (target.kind != Kind::kObject) return Bad("it gives a state to what is no object");
    target.items.push_back(state);
    return true;
  }

  bool Refuse(uint8_t opcode) {
    char text[80];
    std::snprintf(text, sizeof(text), "opcode 0x%02x is not one of plain data%s", opcode,
                  opcode == 'c' || opcode == 0x93 ? " (it names a class or function)"
                  : opcode == 'R'                 ? " (it calls a function)"
                                                  : "");
    return Bad(text);
  }

  const std::string_view bytes_;
  const PickleLimits limits_;
  size_t at_ = 0;
  Pickle out_;
  std::vector<uint32_t> stack_;
  std::unordered_map<uint64_t, uint32_t> memo_;
  std::string what_;
};

Result<Pickle> Pickle::Parse(std::string_view bytes, const PickleLimits& limits) {
  return PickleMachine(bytes, limits).Run();
}

const PickleValue* Pickle::Find(const PickleValue& dict, std::string_view key) const {
  if (dict.kind != PickleValue::Kind::kDict) return nullptr;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& name = values_[dict.items[i]];
    if (name.kind == PickleValue::Kind::kText && name.text == key) {
      return &values_[dict.items[i + 1]];
    }
  }
  return nullptr;
}

int64_t Pickle::Integer(const PickleValue& dict, std::string_view key, int64_t otherwise) const {
  const PickleValue* value = Find(dict, key);
  return value != nullptr && value->kind == PickleValue::Kind::kInt ? value->integer : otherwise;
}

std::string_view Pickle::Text(const PickleValue& dict, std::string_view key) const {
  const PickleValue* value = Find(dict, key);
  return value != nullptr && value->kind == PickleValue::Kind::kText ? value->text : "";
}

}  // namespace longhaul
