// Unwinds the stacks of copied processes with elfutils' libdw, and names their calls.
//
// Reads the program's files for it, which are the worker's and may be hostile: libdw may crash, or
// take long. So this runs in a process of its own without privileges (stack_reader_main.h), and
// nothing is traced meanwhile. Names come from the symbol tables of the files: no debugging
// information is looked for elsewhere.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "service/agent/native_stacks/copied_process.h"

namespace longhaul::service {

constexpr size_t kMostNativeCalls = 64;  // of a thread

// The names of addresses that were looked up before, by file and offset: the workers of a node run
// the same program, and to look up a name reads the whole symbol table of its file.
using KnownCalls = std::map<std::pair<std::string, uint64_t>, std::string>;

struct UnwinderState;  // libdw's, in unwinder.cc

class Unwinder {
 public:
  // Requires that `process` and `known` outlive this.
  Unwinder(const CopiedProcess& process, KnownCalls& known);
  ~Unwinder();
  Unwinder(const Unwinder&) = delete;
  Unwinder& operator=(const Unwinder&) = delete;

  // Returns the calls, innermost first: "gloo::allreduce", or "libc.so.6+?" where the file has no
  // name for it. Requires a thread of the process. `problem` is why there are no more; or empty.
  std::vector<std::string> Calls(const CopiedThread& thread, std::string& problem);

 private:
  const std::unique_ptr<UnwinderState> state_;
};

}  // namespace longhaul::service
