// Ranks as processes: Gloo through c10d, joined over a store of c10d.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "training/communicator.h"

namespace longhaul::training {

// All ranks of the world call it; they meet in the file, which does not exist before and is on a
// file system of theirs. kUnavailable when one is missing.
Result<std::unique_ptr<CommunicatorMaker>> JoinByFile(const std::string& path, uint32_t world,
                                                      uint32_t rank);

}  // namespace longhaul::training
