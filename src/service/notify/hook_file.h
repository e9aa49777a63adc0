// Reads the file of hooks from the disk.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "spec/notify/notify_file.h"

namespace longhaul::service {

// Returns the hooks of a file; none for an empty path. kInvalidArgument for a mistake, and for a
// file that another user may write, because its commands run as this user.
Result<std::vector<spec::HookSpec>> ReadHookFile(const std::string& path);

}  // namespace longhaul::service
