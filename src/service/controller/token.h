// The secret that agents and clients of a controller share.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace longhaul::service {

// Makes the file with a new random token (32 bytes, in hex; mode 0600) unless it exists, and
// returns what it holds.
Result<std::string> ReadOrMakeToken(const std::string& path);

// Whether both are equal, in a time that doesn't tell where they differ.
bool EqualInConstantTime(std::string_view a, std::string_view b);

}  // namespace longhaul::service
