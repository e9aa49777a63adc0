// convert and prune.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "bin/tools/checkpoint/parts.h"
#include "checkpoint/directory.h"
#include "checkpoint/formats/open_checkpoint.h"
#include "checkpoint/formats/write_checkpoint.h"
#include "checkpoint/retention/retention.h"
#include "io/files/file.h"
#include "objects/files.h"

namespace longhaul::bin::checkpoints {
namespace {

using checkpoint::CheckpointDirectory;
using checkpoint::Collection;
using checkpoint::Format;
using checkpoint::Manifest;

struct ConvertFlags {
  std::string from;
  std::string to;
  std::string format;
  uint64_t shard_mib = 0;
  uint64_t step = 0;
  std::string job = "converted";
  bool json = false;
};

// The format that the target's name implies.
std::optional<Format> FormatOfName(const std::string& path) {
  for (const char* end : {".pt", ".pth", ".bin", ".ckpt"}) {
    if (path.ends_with(end)) return Format::kTorch;
  }
  if (path.ends_with(".safetensors")) return Format::kSafetensors;
  return std::nullopt;
}

int Convert(const ConvertFlags& flags) {
  const auto format =
      flags.format.empty() ? FormatOfName(flags.to) : checkpoint::ParseFormat(flags.format);
  if (!format.has_value()) {
    Fail(InvalidArgument("which format? " + flags.to +
                         " doesn't say: give --to safetensors, torch, dcp or longhaul"));
    return kExitUsage;
  }
  if (objects::IsObjectPath(flags.to)) {
    Fail(InvalidArgument("convert writes files and folders of the machine, not " + flags.to +
                         ": write it to disk and copy it from there"));
    return kExitUsage;
  }
  const auto place = objects::Place::Open(flags.from);
  if (!place.ok()) return Fail(place.status());
  const auto catalog = checkpoint::OpenCheckpoint(place->files(), place->path());
  if (!catalog.ok()) return Fail(catalog.status());
  Progress progress("converted");
  checkpoint::WriteOptions options;
  options.source = &place->files();
  options.format = *format;
  options.max_shard_bytes = flags.shard_mib << 20;
  options.step = flags.step;
  options.job = flags.job;
  options.progress = progress.Callback();
  const Status written = WriteCheckpoint(io::PosixFileSystem(), *catalog, flags.to, options);
  if (!written.ok()) return FailOrStopped(written);
  if (flags.json) {
    Print({{"from", flags.from},
           {"to", flags.to},
           {"format", ToString(*format)},
           {"tensors", catalog->tensors.size()},
           {"bytes", catalog->TotalBytes()}});
  } else {
    std::printf("wrote %s (%s): %zu tensors, %s\n", Clean(flags.to).c_str(),
                std::string(ToString(*format)).c_str(), catalog->tensors.size(),
                ToString(Bytes(static_cast<int64_t>(catalog->TotalBytes()))).c_str());
  }
  return kExitOk;
}

struct PruneFlags {
  std::string run;
  uint64_t keep = 3;
  uint64_t every = 0;
  uint64_t best = 0;
  std::vector<uint64_t> steps;
  bool dry_run = false;
  bool yes = false;
  bool json = false;
};

std::string NameOf(const Manifest& manifest) {
  return CheckpointDirectory::NameOf(manifest.step, manifest.attempt);
}

bool Agreed(size_t count) {
  std::printf("Remove %zu checkpoints? [y/N] ", count);
  std::fflush(stdout);
  std::string answer;
  return std::getline(std::cin, answer) && (answer == "y" || answer == "yes");
}

void PrintPrune(const Collection& plan, const std::string& folder, const PruneFlags& flags,
                bool removed) {
  if (flags.json) {
    nlohmann::ordered_json json;
    json["folder"] = folder;
    json["good"] = plan.good;
    json["notes"] = plan.notes;
    json["kept"] = nlohmann::ordered_json::array();
    json["removed"] = nlohmann::ordered_json::array();
    for (const Manifest& manifest : plan.kept) json["kept"].push_back(NameOf(manifest));
    for (const Manifest& manifest : plan.removed) json["removed"].push_back(NameOf(manifest));
    json["dry_run"] = !removed;
    Print(json);
    return;
  }
  for (const std::string& note : plan.notes) std::printf("%s\n", Clean(note).c_str());
  for (const Manifest& manifest : plan.kept) {
    std::printf("keep    %s%s\n", NameOf(manifest).c_str(),
                NameOf(manifest) == plan.good ? "  verified, every byte" : "");
  }
  for (const Manifest& manifest : plan.removed) {
    std::printf("%s %s\n", removed ? "removed" : "remove ", NameOf(manifest).c_str());
  }
}

int Prune(const PruneFlags& flags) {
  const auto place = objects::Place::Open(flags.run);
  if (!place.ok()) return Fail(place.status());
  const Result<std::string> folder = RunFolder(place->files(), place->path());
  if (!folder.ok()) return Fail(folder.status());
  CheckpointDirectory directory(place->files(), *folder);
  Progress progress("verified");
  const auto plan = checkpoint::PlanCollection(
      directory, {flags.keep, flags.every, flags.best, flags.steps}, progress.Callback());
  if (!plan.ok()) return FailOrStopped(plan.status());
  if (flags.dry_run || plan->removed.empty()) {
    PrintPrune(*plan, *folder, flags, false);
    return kExitOk;
  }
  if (!flags.yes) {
    if (flags.json || isatty(0) == 0) {
      Fail(InvalidArgument("prune removes checkpoints: say --yes, or --dry-run to see which"));
      return kExitUsage;
    }
    PrintPrune(*plan, *folder, flags, false);
    if (!Agreed(plan->removed.size())) return Fail(CancelledError("nothing was removed"));
  }
  const Status removed = RemovePlanned(directory, *plan);
  if (!removed.ok()) return Fail(removed);
  PrintPrune(*plan, *folder, flags, true);
  return kExitOk;
}

}  // namespace

void AddConvert(CLI::App& command, Action& action) {
  auto flags = std::make_shared<ConvertFlags>();
  CLI::App* sub = command.add_subcommand("convert", "Write a checkpoint in another format");
  sub->add_option("FROM", flags->from, "Checkpoint of any format")->required();
  sub->add_option("TO", flags->to,
                  "File or folder that does not exist yet; for the format longhaul, a run's folder")
      ->required();
  sub->add_option("--to", flags->format,
                  "Set the format: safetensors, torch, dcp or longhaul (default: by TO's name)")
      ->check(CLI::IsMember({"safetensors", "torch", "dcp", "longhaul"}));
  sub->add_option("--shard-mib", flags->shard_mib,
                  "Write several files of about this size; for safetensors with an index")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 30));
  sub->add_option("--step", flags->step, "Set the step, for the format longhaul if FROM has none");
  sub->add_option("--job", flags->job,
                  "Set the job's name, for the format longhaul if FROM has none");
  sub->add_flag("--json", flags->json, "Print one JSON object");
  sub->footer(
      "Examples:\n"
      "  longhaul checkpoint convert runs/headers-gpt model.safetensors\n"
      "  longhaul checkpoint convert s3://models/runs/headers-gpt model.pt\n"
      "  longhaul checkpoint convert model.pt folder --to dcp\n"
      "  longhaul checkpoint convert folder runs/new/checkpoints --to longhaul --step 1000");
  sub->callback([flags, &action] { action = [flags] { return Convert(*flags); }; });
}

void AddPrune(CLI::App& command, Action& action) {
  auto flags = std::make_shared<PruneFlags>();
  CLI::App* sub = command.add_subcommand("prune", "Remove older checkpoints of a run");
  sub->add_option("RUN", flags->run, "A run's folder, or its checkpoints")->required();
  sub->add_option("--keep", flags->keep, "Keep the N newest checkpoints")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 32))
      ->capture_default_str();
  sub->add_option("--every", flags->every, "Also keep steps that are a multiple of N");
  sub->add_option("--best", flags->best, "Also keep the N with the lowest validation loss");
  sub->add_option("--step", flags->steps, "Also keep this step");
  sub->add_flag("--dry-run", flags->dry_run, "Only print what would be removed");
  sub->add_flag("--yes", flags->yes, "Do not ask for confirmation");
  sub->add_flag("--json", flags->json, "Print one JSON object");
  sub->footer(
      "At least one of those that stay is verified, every byte, before anything is removed; where\n"
      "none of them is good, the newest good one of the others stays too.\n"
      "Examples:\n"
      "  longhaul checkpoint prune runs/headers-gpt --keep 2 --dry-run\n"
      "  longhaul checkpoint prune runs/headers-gpt --keep 5 --every 1000 --yes");
  sub->callback([flags, &action] { action = [flags] { return Prune(*flags); }; });
}

}  // namespace longhaul::bin::checkpoints
