// The program of the fork server, the Python files in fork_server/, as text.
#pragma once

#include <span>

namespace longhaul::service {

struct PythonModule {
  const char* name;
  const char* text;
};

// A module imports only those before it.
std::span<const PythonModule> ForkServerModules();

}  // namespace longhaul::service
