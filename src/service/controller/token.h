// The secret that agents and clients of a controller share.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace longhaul::service {

// Returns the token in the file. Creates it with a random token (32 bytes, in hex; mode 0600) if it
// doesn't exist.
Result<std::string> ReadOrMakeToken(const std::string& path);

// Returns whether both are equal. The time doesn't depend on where they differ.
bool EqualInConstantTime(std::string_view a, std::string_view b);

}  // namespace longhaul::service
