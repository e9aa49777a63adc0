#include "service/agent/python/interpreter.h"

namespace longhaul::service {

bool IsPython(std::string_view word) {
  constexpr std::string_view kName = "python";
  const std::string_view program = word.substr(word.rfind('/') + 1);
  return program.starts_with(kName) &&
         program.find_first_not_of("0123456789.", kName.size()) == program.npos;
}

}  // namespace longhaul::service
