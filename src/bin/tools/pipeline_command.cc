#include "bin/tools/pipeline_command.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bin/other_program.h"
#include "io/files/file.h"
#include "schedule/generate.h"
#include "schedule/search.h"
#include "schedule/simulate.h"
#include "schedule/text.h"
#include "schedule/verify.h"

namespace longhaul::bin {
namespace {

using schedule::Durations;
using schedule::Schedule;
using schedule::Shape;
using schedule::Timed;
using schedule::Timeline;
using schedule::Verdict;

constexpr uint64_t kLargestFile = 64 << 20;
constexpr size_t kColumns = 96;  // of the picture
constexpr uint32_t kMostSearchedRanks = 64;
constexpr uint32_t kMostSearchedBatches = 1'024;

struct PipelineFlags {
  std::string kind = "1f1b";
  Shape shape{4, 8, 1, schedule::Placement::kLoop};
  bool in_v = false;
  uint32_t activations = 0;  // 0: no limit, or for a search as many as there are ranks
  std::string file;
  uint32_t buffers = 0;
  Durations durations;
  bool json = false;
};

void AddDurations(CLI::App& command, Durations& durations) {
  const auto add = [&](const char* name, std::vector<double>& values, const char* what) {
    command
        .add_option(name, values,
                    std::string("Set the time of ") + what + ": one, or one for each stage")
        ->delimiter(',')
        ->check(CLI::Range(0.0, 1e9))
        ->capture_default_str();
  };
  add("--forward", durations.forward, "a forward");
  add("--backward", durations.backward, "the gradient of a stage's input");
  add("--weights", durations.weights, "the gradients of a stage's weights");
  command.add_option("--transfer", durations.transfer, "Set the time of a transfer")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
}

Status CheckDurations(const Durations& durations, const Shape& shape) {
  const std::pair<const char*, const std::vector<double>*> kRows[] = {
      {"--forward", &durations.forward},
      {"--backward", &durations.backward},
      {"--weights", &durations.weights}};
  for (const auto& [name, values] : kRows) {
    if (values->size() == 1 || values->size() == shape.stages()) continue;
    return InvalidArgument(std::string(name) + " has " + std::to_string(values->size()) +
                           " times, expected one, or one for each of the " +
                           std::to_string(shape.stages()) + " stages");
  }
  return {};
}

Result<Schedule> Make(const PipelineFlags& flags) {
  Shape shape = flags.shape;
  if (flags.in_v) shape.placement = schedule::Placement::kV;
  const uint64_t actions = uint64_t{3} * shape.stages() * shape.micro_batches;
  if (actions > schedule::kMostActions) {
    return InvalidArgument("the schedule has " + std::to_string(actions) +
                           " computations, the limit is " + std::to_string(schedule::kMostActions));
  }
  if (flags.kind != "search" && flags.in_v) {
    return InvalidArgument("--v is for 'search' only");
  }
  if (flags.kind == "1f1b") {
    if (shape.chunks != 1) {
      return InvalidArgument("1f1b has one chunk a rank, not " + std::to_string(shape.chunks) +
                             ": choose interleaved");
    }
    return schedule::OneForwardOneBackward(shape.ranks, shape.micro_batches);
  }
  if (flags.kind == "interleaved") {
    return schedule::Interleaved(shape.ranks, shape.micro_batches, shape.chunks);
  }
  if (flags.in_v && shape.chunks != 2) {
    return InvalidArgument("--v needs --chunks 2, not " + std::to_string(shape.chunks));
  }
  if (shape.ranks > kMostSearchedRanks || shape.micro_batches > kMostSearchedBatches) {
    return InvalidArgument("a search takes at most " + std::to_string(kMostSearchedRanks) +
                           " ranks and " + std::to_string(kMostSearchedBatches) + " micro-batches");
  }
  RETURN_IF_ERROR(CheckDurations(flags.durations, shape));
  const uint32_t most = flags.activations > 0 ? flags.activations : shape.ranks * shape.chunks;
  return schedule::Search(shape, {flags.durations, most});
}

int RunMake(const PipelineFlags& flags) {
  const Result<Schedule> made = Make(flags);
  if (!made.ok()) {
    Fail(made.status());
    return kExitUsage;
  }
  std::fputs(schedule::ToText(*made).c_str(), stdout);
  return kExitOk;
}

// One line for each rank: what it does in equal parts of the time.
void Draw(const Timeline& timeline) {
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    std::string line(kColumns, '.');
    for (const Timed& each : timeline.ranks[rank]) {
      const auto column = [&](double at) {
        return static_cast<size_t>(at / timeline.makespan * kColumns + 1e-9);
      };
      const char mark = schedule::ToString(each.action)[0];
      for (size_t i = column(each.begin); i < std::min(column(each.end), kColumns); ++i) {
        line[i] = mark;
      }
    }
    std::printf("rank %3zu  %s\n", rank, line.c_str());
  }
}

void PrintJson(const Verdict& verdict, const std::optional<Timeline>& timeline) {
  nlohmann::ordered_json json = {{"correct", verdict.findings.empty()},
                                 {"findings", verdict.findings},
                                 {"activations", verdict.activations}};
  if (timeline.has_value()) {
    json["makespan"] = timeline->makespan;
    json["bubble"] = timeline->BubbleShare();
    json["largest_idle"] = timeline->LargestIdleShare();
  }
  std::printf("%s\n", json.dump().c_str());
}

void Print(const Schedule& schedule, const Verdict& verdict,
           const std::optional<Timeline>& timeline) {
  for (const std::string& finding : verdict.findings) std::printf("%s\n", finding.c_str());
  if (!timeline.has_value()) return;
  std::printf("correct: %u ranks, %u micro-batches, %u stages\n", schedule.shape.ranks,
              schedule.shape.micro_batches, schedule.shape.stages());
  std::printf("activations of a rank: at most %u\n",
              *std::max_element(verdict.activations.begin(), verdict.activations.end()));
  std::printf(
      "time of the step: %g; idle: %.1f %% of all ranks' time, and %.1f %% of the time\n"
      "between the first and the last computation of the rank that waits most (computed "
      "from the given times)\n",
      timeline->makespan, 100 * timeline->BubbleShare(), 100 * timeline->LargestIdleShare());
  if (timeline->makespan > 0) Draw(*timeline);
}

Result<std::string> TextOf(const std::string& file) {
  if (file != "-") return io::ReadText(file, kLargestFile);
  std::string text;
  char part[1 << 16];
  while (std::cin.read(part, sizeof(part)), std::cin.gcount() > 0) {
    text.append(part, static_cast<size_t>(std::cin.gcount()));
    if (text.size() > kLargestFile) {
      return InvalidArgument("standard input has more than " + std::to_string(kLargestFile) +
                             " bytes");
    }
  }
  return text;
}

int RunCheck(const PipelineFlags& flags) {
  const Result<std::string> text = TextOf(flags.file);
  if (!text.ok()) return Fail(text.status());
  const Result<Schedule> read = schedule::ParseSchedule(*text);
  if (!read.ok()) return Fail(read.status().WithContext(flags.file));
  if (const Status status = CheckDurations(flags.durations, read->shape); !status.ok()) {
    Fail(status);
    return kExitUsage;
  }
  schedule::VerifyOptions options{.buffers = flags.buffers};
  if (flags.activations > 0) options.most_activations = flags.activations;
  const Verdict verdict = schedule::Verify(*read, options);
  std::optional<Timeline> timeline;
  if (verdict.findings.empty()) timeline = schedule::Simulate(*read, flags.durations);
  if (flags.json) {
    PrintJson(verdict, timeline);
  } else {
    Print(*read, verdict, timeline);
  }
  return verdict.findings.empty() ? kExitOk : kExitFailure;
}

void AddMake(CLI::App& app, const std::shared_ptr<PipelineFlags>& flags, Action& action) {
  CLI::App* command = app.add_subcommand("make", "Print a schedule");
  command->add_option("KIND", flags->kind, "1f1b, interleaved, or search")
      ->check(CLI::IsMember({"1f1b", "interleaved", "search"}))
      ->capture_default_str();
  command->add_option("--ranks", flags->shape.ranks, "Set the number of ranks")
      ->check(CLI::Range(1u, schedule::kMostRanks))
      ->capture_default_str();
  command
      ->add_option("--micro-batches", flags->shape.micro_batches,
                   "Set the number of micro-batches of a step")
      ->check(CLI::Range(1u, schedule::kMostMicroBatches))
      ->capture_default_str();
  command->add_option("--chunks", flags->shape.chunks, "Set the number of stages on each rank")
      ->check(CLI::Range(1u, schedule::kMostChunks))
      ->capture_default_str();
  command->add_flag("--v", flags->in_v,
                    "Place the second chunks in reverse, so that the last stage is on rank 0");
  command->add_option("--activations", flags->activations,
                      "Let a rank hold the activations of at most so many micro-batches and chunks "
                      "(search; default: ranks x chunks)");
  AddDurations(*command, flags->durations);
  command->footer(
      "examples:\n"
      "  longhaul pipeline make 1f1b --ranks 4 --micro-batches 8 > schedule.txt\n"
      "  longhaul pipeline make search --ranks 4 --micro-batches 12 --activations 7 |\n"
      "    longhaul pipeline check -");
  command->callback([flags, &action] { action = [flags] { return RunMake(*flags); }; });
}

void AddCheck(CLI::App& app, const std::shared_ptr<PipelineFlags>& flags, Action& action) {
  CLI::App* command =
      app.add_subcommand("check", "Prove that a schedule is correct, and compute its times");
  command->add_option("FILE", flags->file, "The schedule (-: standard input)")->required();
  command
      ->add_option("--buffers", flags->buffers,
                   "Let a link take so many messages before they are received (0: a send waits)")
      ->check(CLI::Range(0u, schedule::kMostMicroBatches))
      ->capture_default_str();
  command->add_option("--activations", flags->activations,
                      "Refuse more activations on a rank than this");
  AddDurations(*command, flags->durations);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->footer(
      "Exit codes: 0 the schedule is correct, 1 it is not or cannot be read, 2 wrong usage.\n\n"
      "examples:\n"
      "  longhaul pipeline check schedule.txt --buffers 2\n"
      "  longhaul pipeline check schedule.txt --forward 1.2 --backward 2.1 --weights 1 --json");
  command->callback([flags, &action] { action = [flags] { return RunCheck(*flags); }; });
}

}  // namespace

void AddPipelineCommand(CLI::App& app, Action& action) {
  CLI::App* command = AddOwnCommand(app, kPipeline);
  command->require_subcommand(1);
  const auto flags = std::make_shared<PipelineFlags>();
  AddMake(*command, flags, action);
  AddCheck(*command, flags, action);
}

}  // namespace longhaul::bin
