// Recognises Python's interpreters among the words of a command.
#pragma once

#include <string_view>

namespace longhaul::service {

// "python", "python3", "/usr/bin/python3.12"; not "python-config".
bool IsPython(std::string_view word);

}  // namespace longhaul::service
