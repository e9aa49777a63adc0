// Reads what `longhaul stack-reader` has written (stack_reader_main.h).
//
// Pure. The text has names from files of workers, and the process that wrote it has read these
// files: it may be anything, and may end anywhere.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::service {

struct NativeStack {
  std::vector<std::string> main_calls;  // of the main thread, innermost first; may be empty
  std::string text;                     // of all threads, a line each, for people
};

// By process. Lines are cut to 200 printable characters. A last line without its end is left out.
std::map<pid_t, NativeStack> ParseNativeStacks(std::string_view text);

}  // namespace longhaul::service
