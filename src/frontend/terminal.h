// The kind of standard output: a terminal (its size, its colours) or a reader of plain lines.
#pragma once

#include <string_view>

#include "frontend/live_view.h"

namespace longhaul::frontend {

// Whether frames can be drawn: standard output is a terminal that supports cursor movements.
bool CanDrawFrames();

// The current size of the terminal, and whether to use colours (no NO_COLOR). Without a terminal:
// 100 columns and no colours.
ViewStyle TerminalStyle();

// Writes all bytes to standard output at once. A reader that has closed it is not an error: the run
// continues.
void WriteOut(std::string_view bytes);

}  // namespace longhaul::frontend
