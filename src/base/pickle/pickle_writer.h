// Writes pickles of protocol 2, which every Python 3 reads: values in the order of the machine that
// pickle.h describes, without its memo. The caller keeps the stack balanced.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longhaul {

class PickleWriter {
 public:
  PickleWriter() : bytes_("\x80\x02") {}

  void None() { bytes_ += 'N'; }
  void Bool(bool value) { bytes_ += value ? '\x88' : '\x89'; }
  void Int(int64_t value);
  // An integer of any size, "-12". Requires 1 to 600 digits.
  void Long(std::string_view decimal);
  void Float(double value);
  void Text(std::string_view utf8);  // Requires less than 4 GiB.

  void Mark() { bytes_ += '('; }
  void EmptyList() { bytes_ += ']'; }
  void Appends() { bytes_ += 'e'; }  // appends the values above the mark to the list below it
  void EmptyDict() { bytes_ += '}'; }
  void SetItems() { bytes_ += 'u'; }  // keys and values above the mark, to the dictionary below it
  void EmptyTuple() { bytes_ += ')'; }
  void Tuple() { bytes_ += 't'; }  // of the values above the mark

  // A class or function by name; neither may hold a line end.
  void Global(std::string_view module, std::string_view name);
  void Reduce() { bytes_ += 'R'; }        // function, arguments -> its result
  void NewObject() { bytes_ += '\x81'; }  // class, arguments -> an object
  void Build() { bytes_ += 'b'; }         // object, state -> the object with that state
  void PersistentId() { bytes_ += 'Q'; }  // id -> the value that the file defines for that id

  // The pickle. Requires one value on the stack.
  std::string Take() && {
    bytes_ += '.';
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

}  // namespace longhaul
