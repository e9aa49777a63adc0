// Slurm's lists of hosts: "gpu[01-03,7],login" stands for gpu01, gpu02, gpu03, gpu7 and login.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::engines::slurm {

inline constexpr size_t kMaxHosts = 65'536;

// Returns the names in the list's order. A name may have several brackets ("r[1-2]n[1-4]"); numbers
// keep their leading zeros. Returns kInvalidArgument for a text that is no list, and
// kResourceExhausted for more than kMaxHosts names.
Result<std::vector<std::string>> ExpandHostList(std::string_view text);

}  // namespace longhaul::engines::slurm
