// Network interfaces of this machine.
#pragma once

#include <string>

#include "base/status.h"

namespace longhaul::io {

// The name of the interface that has a numeric address, such as "eth0"; kNotFound when none has.
Result<std::string> InterfaceOf(const std::string& address);

}  // namespace longhaul::io
