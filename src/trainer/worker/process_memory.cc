#include "trainer/worker/process_memory.h"

#include <fstream>
#include <string>

namespace longhaul::trainer {

Bytes PeakProcessMemory() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmHWM:")) return Bytes(std::stoll(line.substr(6)) * 1024);
  }
  return Bytes(0);
}

}  // namespace longhaul::trainer
