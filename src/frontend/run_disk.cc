#include "frontend/run_disk.h"

#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/units.h"
#include "frontend/run_directory.h"

namespace longhaul::frontend {
namespace {

constexpr Bytes kDiskNeeded(10 << 20);
constexpr Bytes kDiskWanted(100 << 20);
constexpr Bytes kDiskFull(1 << 20);
constexpr Duration kDiskPeriod = std::chrono::seconds(1);

}  // namespace

Status CheckDisk(const std::string& run_directory) {
  std::error_code error;
  const std::string path = std::filesystem::absolute(run_directory, error);
  const Result<Bytes> space = FreeSpace(path);
  if (!space.ok()) return Status();
  if (*space < kDiskNeeded) {
    return ResourceExhausted("only " + ToString(*space) + " are free where " + path +
                             " lies: make room, or name another place with --run-dir");
  }
  if (*space < kDiskWanted) {
    std::fprintf(stderr,
                 "longhaul: warning: only %s are free where %s lies; checkpoints may not fit\n",
                 ToString(*space).c_str(), path.c_str());
  }
  return Status();
}

DiskWatch::DiskWatch(io::EventLoop& loop, std::string path, OnChange on_change)
    : loop_(loop), path_(std::move(path)), on_change_(std::move(on_change)) {
  Look();
}

void DiskWatch::Look() {
  timer_ = loop_.After(kDiskPeriod, [this] { Look(); });
  const Result<Bytes> space = FreeSpace(path_);
  const bool full = space.ok() && *space < kDiskFull;
  if (full == std::exchange(full_, full)) return;
  on_change_(full);
}

}  // namespace longhaul::frontend
