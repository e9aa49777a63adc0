// What the subcommands of `longhaul checkpoint` share.
#pragma once

#include <signal.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bin/command.h"
#include "checkpoint/formats/catalog.h"
#include "checkpoint/manifest.h"
#include "io/file.h"

namespace longhaul::bin::checkpoints {

constexpr int kExitStopped = 130;  // as shells report an interrupt

// The line of a long command: what is done of how much, on standard error where that is a terminal.
// Ctrl-C makes the next call return false; a second one ends the process as usual.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool Seen(uint64_t done, uint64_t total);
  std::function<bool(uint64_t, uint64_t)> Callback() {
    return [this](uint64_t done, uint64_t total) { return Seen(done, total); };
  }

 private:
  std::string what_;
  bool terminal_ = false;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
  struct sigaction before_ {};
};

// Prints the status and returns the exit code: that of an interrupt for kCancelled.
int FailOrStopped(const Status& status);

// The folder with a run's steps: `path`, or `path`/checkpoints; kNotFound when neither is one.
Result<std::string> RunFolder(io::FileSystem& files, const std::string& path);

// Without control characters: names come from files that others wrote.
std::string Clean(std::string_view text);

// Prints JSON with line ends; numbers that JSON lacks become null.
void Print(const nlohmann::ordered_json& json);

// Each declares one subcommand below `command`.
void AddLs(CLI::App& command, Action& action);
void AddShow(CLI::App& command, Action& action);
void AddVerify(CLI::App& command, Action& action);
void AddDiff(CLI::App& command, Action& action);
void AddConvert(CLI::App& command, Action& action);
void AddPrune(CLI::App& command, Action& action);
void AddPlan(CLI::App& command, Action& action);

}  // namespace longhaul::bin::checkpoints
