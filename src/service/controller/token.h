// The administrator's token in the controller's folder, which agents on the same machine use too.
#pragma once

#include <string>

#include "base/status.h"

namespace longhaul::service {

// Returns the token in the file. Creates it with a random token (32 bytes, in hex; mode 0600) if it
// doesn't exist.
Result<std::string> ReadOrMakeToken(const std::string& path);

}  // namespace longhaul::service
