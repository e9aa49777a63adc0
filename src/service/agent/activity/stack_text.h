// Turns what the kernel and Python say about a process into calls that can be compared.
//
// Pure. A call is a line: "main (train.py:12)" of Python, with the folder of the file, or the name
// of a system call.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longhaul::service {

// The calls of the thread that Python's module faulthandler marks as the current one, innermost
// first; of the last thread if none is marked. Empty when the text is not such a dump.
std::vector<std::string> PythonCalls(std::string_view dump);

// The system call of /proc/PID/syscall: "clock_nanosleep", "system call 500", "running"; empty when
// the text is empty.
std::string SystemCallName(std::string_view syscall);

// Whether a process handles the signal itself, by its /proc/PID/status: it does not end it.
bool HandlesSignal(std::string_view status, int signal);

}  // namespace longhaul::service
