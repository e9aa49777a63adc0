// One rank from start to end: environment -> worker API -> group -> loop -> exit code.
#pragma once

#include <string>

namespace longhaul::trainer {

// Exit codes of a worker beside 0 and 1 (a failure, reported on standard error).
constexpr int kExitDataLoss = 75;     // the state chosen for restore is damaged: try another
constexpr int kExitTerminated = 143;  // stopped by SIGTERM; the trained state is saved

// Runs the rank that the environment names (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and
// LONGHAUL_AGENT_SOCKET when there is an agent) and ends the process. Without an agent the
// configuration is read from `config_path`, or from the path in LONGHAUL_TRAINER_CONFIG. Never
// returns and runs no destructors: threads of a broken group could block them.
[[noreturn]] void RunWorker(const std::string& config_path);

}  // namespace longhaul::trainer
