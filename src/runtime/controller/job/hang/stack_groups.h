// Groups the stacks of workers that hang, to find the worker that differs.
//
// Where all workers but one wait in the same call, the one that does something else is the likely
// cause. A pure function of the stacks: equal texts form a group, named by a hash of the text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace longhaul::runtime::controller {

struct WorkerStack {
  uint32_t rank = 0;
  std::string node;
  std::string state;  // as in /proc/PID/stat
  std::string stack;  // innermost call first, a line each; empty: unknown
};

struct StackGroup {
  uint64_t hash = 0;  // of the stack
  std::string stack;
  std::vector<uint32_t> ranks;  // in order
  bool waits = false;           // in a call that waits for other workers
  bool stopped = false;
};

struct StackGroups {
  std::vector<StackGroup> groups;  // the largest first, then by the first rank
  // The workers that differ from the others; none: no group is a minority, and none is the only one
  // that does not wait for the others.
  std::vector<uint32_t> outliers;
};

StackGroups GroupStacks(const std::vector<WorkerStack>& workers);

// Whether the stack is one of a collective operation, by the names of its calls: its worker waits
// for other workers.
bool WaitsForOthers(const std::string& stack);

// One sentence: "worker 1 differs: sleep (train.py:7) < main (train.py:20); the other 3 are in
// ...". Empty when nothing is known.
std::string Describe(const StackGroups& groups);

}  // namespace longhaul::runtime::controller
