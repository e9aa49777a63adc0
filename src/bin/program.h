// The `longhaul` program: its command line.
#pragma once

namespace longhaul::bin {

// Returns the exit code.
int RunProgram(int argc, char** argv);

}  // namespace longhaul::bin
