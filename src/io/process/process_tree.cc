#include "io/process/process_tree.h"

#include <unistd.h>

#include "io/process/process.h"

namespace longhaul::io {

bool BelongsTo(pid_t process, pid_t root) {
  constexpr int kMostGenerations = 64;
  if (process <= 0 || root <= 0) return false;
  if (process == root || ::getsid(process) == root) return true;
  pid_t ancestor = process;
  for (int i = 0; i < kMostGenerations && ancestor > 1; ++i) {
    const Result<ProcessFacts> facts = ReadProcessFacts(ancestor);
    if (!facts.ok()) return false;
    ancestor = facts->parent;
    if (ancestor == root) return true;
  }
  return false;
}

}  // namespace longhaul::io
