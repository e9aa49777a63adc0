// Ranks as threads of one process: what the conformance run uses (conformance/). Sums are in the
// order of the ranks, so a result depends on nothing else.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "training/communicator.h"

namespace longhaul::training {

// Runs `body` on `world` threads, one a rank. When one throws, the others stop at their next
// operation. Returns the first message, empty when all ended well. A rank that waits longer than
// `patience` ends the run, and the message names what it waits for.
std::string RunThreads(uint32_t world, std::chrono::seconds patience,
                       const std::function<void(uint32_t rank, CommunicatorMaker& maker)>& body);

}  // namespace longhaul::training
