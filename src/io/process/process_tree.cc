#include "io/process/process_tree.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

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

std::vector<pid_t> OwnChildren() {
  std::vector<pid_t> children;
  std::error_code error;
  // The kernel lists children by thread.
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream list(thread.path() / "children");
    for (pid_t child = 0; list >> child;) children.push_back(child);
  }
  return children;
}

bool StartedWith(pid_t process, const std::string& entry) {
  constexpr size_t kMost = 256 << 10;
  std::ifstream file("/proc/" + std::to_string(process) + "/environ", std::ios::binary);
  size_t bytes = 0;
  for (std::string variable; bytes < kMost && std::getline(file, variable, '\0');) {
    if (variable == entry) return true;
    bytes += variable.size() + 1;
  }
  return false;
}

bool HasNoEnvironment(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/environ", std::ios::binary);
  if (!file.is_open() || file.peek() != std::ifstream::traits_type::eof()) return false;
  const Result<ProcessFacts> facts = ReadProcessFacts(process);
  return facts.ok() && facts->state != 'Z' && facts->state != 'X';
}

}  // namespace longhaul::io
