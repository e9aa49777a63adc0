// Commands that are programs of their own beside `longhaul`, so that a run on one machine needs
// neither their libraries nor the time to build them. `longhaul COMMAND` becomes that program.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bin/command.h"

namespace longhaul::bin {

struct OtherProgram {
  const char* command;
  const char* help;
  const char* group;
  const char* program;  // the file's name, beside this program's
};

// longhaul-kube gets the words after `kube`.
inline constexpr OtherProgram kKube = {"kube", "Schedule pods and run jobs on a Kubernetes cluster",
                                       kGroupService, "longhaul-kube"};

// longhaul-tools gets the command's name, too, because it has several.
inline constexpr const char* kToolsProgram = "longhaul-tools";
inline constexpr OtherProgram kPlan = {
    "plan", "Predict memory, time, cost and the best layout of a training", kGroupRun,
    kToolsProgram};
inline constexpr OtherProgram kProfile = {
    "profile", "Analyse traces of one or all ranks and show where the time went", kGroupTools,
    kToolsProgram};
inline constexpr OtherProgram kSimulate = {
    "simulate", "Run the controller and agents in virtual time under random, composed faults",
    kGroupTools, kToolsProgram};
inline constexpr OtherProgram kCalibrate = {
    "calibrate",
    "Measure this machine for the planner, in about a minute on an idle machine of two cores:\n"
    "matmul, attention, other operators, optimizer, all-reduce, memory and storage, on all cores\n"
    "at once. `run` and `plan` use the file from then on.",
    kGroupTools, kToolsProgram};
inline constexpr OtherProgram kPipeline = {
    "pipeline", "Make schedules of a pipeline, and prove that one is correct", kGroupTools,
    kToolsProgram};
inline constexpr OtherProgram kCheckpoint = {
    "checkpoint", "List, show, verify, compare, convert and remove checkpoints", kGroupTools,
    kToolsProgram};

// Whether this command is a program of its own.
bool IsOtherProgram(std::string_view command);

// Declares a command that becomes its program with these words.
void AddOtherProgram(CLI::App& app, Action& action, const OtherProgram& other,
                     const std::vector<std::string>& words);

// Declares the command in its own program, with the same help.
CLI::App* AddOwnCommand(CLI::App& app, const OtherProgram& own);

}  // namespace longhaul::bin
