#include "bin/checkpoint/parts.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "io/file.h"

namespace longhaul::bin::checkpoints {
namespace {

std::atomic<bool> interrupted = false;  // written by a signal handler

extern "C" void OnCheckpointInterrupt(int) { interrupted = true; }

constexpr auto kBetweenLines = std::chrono::milliseconds(100);

bool HasSteps(io::FileSystem& files, const std::string& path) {
  const auto names = files.List(path);
  return names.ok() && std::any_of(names->begin(), names->end(), [](const std::string& name) {
           return name.starts_with("step-");
         });
}

}  // namespace

Progress::Progress(std::string what) : what_(std::move(what)), terminal_(isatty(2) != 0) {
  struct sigaction action {};
  action.sa_handler = OnCheckpointInterrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, &before_);
}

Progress::~Progress() {
  sigaction(SIGINT, &before_, nullptr);
  if (shown_) std::fprintf(stderr, "\r\033[K");
}

bool Progress::Seen(uint64_t done, uint64_t total) {
  const auto now = std::chrono::steady_clock::now();
  if (terminal_ && now - last_ >= kBetweenLines) {
    last_ = now;
    shown_ = true;
    const double percent =
        total > 0 ? 100.0 * static_cast<double>(done) / static_cast<double>(total) : 100.0;
    std::fprintf(stderr, "\r\033[K%s %.0f %% of %s", what_.c_str(), percent,
                 ToString(Bytes(static_cast<int64_t>(total))).c_str());
  }
  return !interrupted;
}

int FailOrStopped(const Status& status) {
  Fail(status);
  return status.code() == Code::kCancelled ? kExitStopped : kExitFailure;
}

Result<std::string> RunFolder(io::FileSystem& files, const std::string& path) {
  std::string folder = path;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  for (const std::string& candidate : {folder, folder + "/checkpoints"}) {
    if (HasSteps(files, candidate)) return candidate;
  }
  const auto names = files.List(folder);
  if (!names.ok()) return names.status();
  return NotFound(folder + " holds no step of a run: expected folders named step-... in it or in " +
                  folder + "/checkpoints");
}

std::string Clean(std::string_view text) { return Printable(text, 400); }

void Print(const nlohmann::ordered_json& json) {
  std::printf("%s\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace longhaul::bin::checkpoints
