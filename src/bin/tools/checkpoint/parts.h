// Shared code of the subcommands of `longhaul checkpoint`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bin/command.h"
#include "bin/tools/progress.h"
#include "checkpoint/formats/catalog.h"
#include "checkpoint/manifest.h"
#include "io/files/file.h"

namespace longhaul::bin::checkpoints {

// The folder with a run's steps: `path` or `path`/checkpoints; kNotFound when neither is such one.
Result<std::string> RunFolder(io::FileSystem& files, const std::string& path);

// Removes control characters: names come from files that other programs wrote.
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
