// The name of the user that a process runs for.
#pragma once

#include <string>

namespace longhaul::io {

// Returns the name of the effective user; "uid-1000" if the user database has none.
std::string UserName();

}  // namespace longhaul::io
