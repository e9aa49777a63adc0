// What standard output is: a terminal (how large, in colour) or something that wants plain lines.
#pragma once

#include <string_view>

#include "frontend/live_view.h"

namespace longhaul::frontend {

// Whether frames can be drawn: standard output is a terminal that understands cursor movements.
bool CanDrawFrames();

// The size of the terminal now, and whether colour is welcome (no NO_COLOR). Without a terminal:
// 100 columns and no colour.
ViewStyle TerminalStyle();

// Writes all of it to standard output at once. It is no failure when the reader has gone away: the
// run continues.
void WriteOut(std::string_view bytes);

}  // namespace longhaul::frontend
