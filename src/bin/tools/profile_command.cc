#include "bin/tools/profile_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/text.h"
#include "bin/other_program.h"
#include "bin/tools/allowed_memory.h"
#include "bin/tools/progress.h"
#include "frontend/profile/refit.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "profiler/across/findings.h"
#include "profiler/memory/snapshot.h"
#include "profiler/rank/hta.h"
#include "profiler/rank/kernel_table.h"
#include "profiler/rank/step_window.h"
#include "profiler/report/read_job.h"
#include "profiler/report/report.h"
#include "spec/cluster/device.h"

namespace longhaul::bin {
namespace {

struct ProfileFlags {
  std::vector<std::string> traces;
  std::vector<std::string> before;
  std::string memory;
  std::string html;
  std::string merged;
  std::string device;
  std::string step;
  std::string steps;
  std::vector<std::string> dimensions;
  std::string schedule;
  std::string kernels;
  int64_t ranks_per_host = 0;
  unsigned threads = 0;
  uint64_t memory_mib = 0;  // half of what it may have
  double model_flops = 0;
  std::string refit;
  std::string against;
  bool json = false;
  bool as_hta = false;
};

bool LooksLikeTrace(const std::string& name) {
  for (const char* end : {".json", ".json.gz", ".json.zst", ".gz", ".zst", ".sqlite"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

struct TraceFiles {
  std::vector<std::string> paths;
  std::set<std::string> found;  // of them, those in a folder that was named
};

// Files as they are, and the traces in folders, sorted.
Result<TraceFiles> Expand(const std::vector<std::string>& paths) {
  TraceFiles files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.paths.push_back(path);
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<std::string> names, io::PosixFileSystem().List(path));
    const size_t before = files.paths.size();
    for (const std::string& name : names) {
      if (!LooksLikeTrace(name)) continue;
      files.paths.push_back(path + "/" + name);
      files.found.insert(files.paths.back());
    }
    if (files.paths.size() == before) {
      return NotFound("no .json, .gz, .zst or .sqlite file in " + path);
    }
  }
  // What is named is expected to be a trace, also where its folder is named too.
  for (const std::string& path : paths) files.found.erase(path);
  return files;
}

Result<std::pair<std::string, profiler::Dimension>> ParseDimension(const std::string& text) {
  const size_t equals = text.rfind('=');
  std::vector<std::string> names;
  for (size_t d = 0; equals != text.npos && d < profiler::kDimensions; ++d) {
    const auto dimension = static_cast<profiler::Dimension>(d);
    names.emplace_back(ToString(dimension));
    if (text.substr(equals + 1) == names.back()) {
      return std::pair(text.substr(0, equals), dimension);
    }
  }
  return InvalidArgument(Printable(text) +
                         ": expected TEXT=DIMENSION with one of tensor, context, expert, data, "
                         "pipeline, world, unknown");
}

// The built-in classes of kernels, and those of a user's file in front of them.
Result<profiler::KernelTable> ReadKernels(const std::string& path) {
  if (path.empty()) return profiler::KernelTable();
  const Result<std::string> text = io::ReadText(path, profiler::KernelTable::kMaxFileBytes);
  if (!text.ok()) return text.status().WithContext("--kernels");
  return profiler::KernelTable::Parse(*text, path);
}

// Two of them share the memory where they are compared.
Result<profiler::ProfiledJob> Load(const ProfileFlags& flags,
                                   const std::vector<std::string>& paths) {
  ASSIGN_OR_RETURN(TraceFiles files, Expand(paths));
  profiler::ReadJobOptions read;
  read.found = std::move(files.found);
  read.threads = flags.threads;
  const size_t memory = flags.memory_mib > 0 ? flags.memory_mib << 20 : AllowedMemory() / 2;
  read.max_memory_bytes = flags.before.empty() ? memory : memory / 2;
  read.summary.step_annotation = flags.step;
  ASSIGN_OR_RETURN(read.summary.kernels, ReadKernels(flags.kernels));
  if (!flags.steps.empty()) {
    ASSIGN_OR_RETURN(read.summary.steps, profiler::ParseStepWindow(flags.steps));
  }
  std::optional<Progress> progress("read");
  read.progress = progress->Callback();
  ASSIGN_OR_RETURN(profiler::RankSummaries summaries, profiler::ReadJob(files.paths, read));
  progress.reset();
  profiler::JobOptions options;
  options.ranks_per_host = flags.ranks_per_host;
  for (const std::string& text : flags.dimensions) {
    ASSIGN_OR_RETURN(auto dimension, ParseDimension(text));
    options.dimensions.push_back(std::move(dimension));
  }
  ASSIGN_OR_RETURN(profiler::ProfiledJob job,
                   profiler::AssembleJob(std::move(summaries.ranks), options));
  for (const std::string& skipped : summaries.skipped) {
    job.warnings.push_back("left out: " + Printable(skipped, 400));
  }
  if (!summaries.left_out.empty()) job.warnings.push_back(std::move(summaries.left_out));
  return job;
}

void ShowHta(const std::string& path, const profiler::HtaNumbers& n) {
  const auto us = [](int64_t value) { return static_cast<long long>(value); };
  std::printf(
      "%s\n  kernel time %lld us, idle %lld, compute %lld, non-compute %lld; "
      "communication hidden by computation %.2f %%\n"
      "  launches %llu, delay mean %.3f us, max %lld\n",
      path.c_str(), us(n.kernel_us), us(n.idle_us), us(n.compute_us), us(n.non_compute_us),
      n.overlap_percent, static_cast<unsigned long long>(n.launches), n.launch_delay_us_mean,
      us(n.launch_delay_us_max));
  for (const profiler::HtaIdle& idle : n.idle) {
    std::printf("  stream %lld idle: host wait %lld us, kernel wait %lld, other %lld\n",
                us(idle.stream), us(idle.host_wait_us), us(idle.kernel_wait_us), us(idle.other_us));
  }
  for (const profiler::HtaQueue& queue : n.queue) {
    const profiler::HtaLengths& l = queue.launch_first;
    std::printf(
        "  stream %lld queue: mean %.3f (%.3f where a kernel's start comes before a launch of the "
        "same time), std %.3f, min %lld, quartiles %g %g %g, max %lld\n",
        us(queue.stream), l.mean, queue.kernel_first.mean, l.deviation, us(l.min), l.quartiles[0],
        l.quartiles[1], l.quartiles[2], us(l.max));
  }
}

int AsHta(const ProfileFlags& flags) {
  const Result<TraceFiles> files = Expand(flags.traces);
  if (!files.ok()) return Fail(files.status());
  std::vector<std::string> skipped;
  for (const std::string& path : files->paths) {
    profiler::ReadOptions read;
    read.found = files->found.contains(path);
    const auto trace = profiler::ReadTraceFile(path, read);
    if (trace.ok()) {
      ShowHta(path, profiler::AsHta(*trace));
    } else if (read.found && profiler::HoldsNoTrace(trace.status())) {
      skipped.push_back(trace.status().message());
      std::fprintf(stderr, "left out: %s\n", Printable(skipped.back(), 400).c_str());
    } else {
      return Fail(trace.status());
    }
  }
  return skipped.size() < files->paths.size() ? kExitOk : Fail(profiler::NoTraceAmong(skipped));
}

int ShowMemory(const std::string& path) {
  constexpr uint64_t kMaxSnapshot = uint64_t{8} << 30;
  const Result<std::string> text = io::ReadText(path, kMaxSnapshot);
  if (!text.ok()) return Fail(text.status());
  const auto devices = profiler::ReadMemorySnapshot(*text);
  if (!devices.ok()) return Fail(devices.status().WithContext(path));
  std::printf("%s", profiler::MemoryText(*devices).c_str());
  return kExitOk;
}

// What of a trace is the planner's: a device file from it, a table against one.
Status MeetThePlanner(const ProfileFlags& flags, const profiler::ProfiledJob& job) {
  if (!flags.refit.empty()) {
    frontend::RefitFacts facts;
    facts.measured_at = ToString(io::Now());
    facts.version = LONGHAUL_VERSION;
    facts.memory = Bytes(int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
    ASSIGN_OR_RETURN(const planner::DeviceFile file, frontend::Refit(job, facts));
    const Status written =
        io::WriteTextAtomically(io::PosixFileSystem(), flags.refit, ToJson(file));
    if (!written.ok()) return written.WithContext("--refit");
    std::printf("%zu figures of %s, %u cores, are in %s: longhaul plan MODEL %s\n\n",
                file.figures.size(), file.machine.c_str(), file.cores, flags.refit.c_str(),
                flags.refit.c_str());
  }
  if (flags.against.empty()) return {};
  ASSIGN_OR_RETURN(const std::string text,
                   io::ReadText(flags.against, planner::kLargestDeviceFile));
  const auto device = planner::ParseDeviceFile(text);
  if (!device.ok()) return device.status().WithContext("--predicted " + flags.against);
  std::printf("%s\n", frontend::AgainstDeviceText(job, *device).c_str());
  return {};
}

// Piece by piece, since it is as large as the traces; whole or not at all.
Status WriteMerged(const profiler::ProfiledJob& job, const std::string& path) {
  io::FileSystem& files = io::PosixFileSystem();
  const std::string temporary = path + ".tmp";
  const auto write = [&]() -> Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<io::WritableFile> file, files.Create(temporary));
    RETURN_IF_ERROR(profiler::WriteMergedTrace(job, [&file](std::string_view piece) {
      return file->Append(std::as_bytes(std::span(piece)));
    }));
    RETURN_IF_ERROR(file->Close());
    return files.Rename(temporary, path);
  };
  const Status written = write();
  if (!written.ok()) (void)files.Remove(temporary);  // report the first failure
  return written;
}

Status CheckSchedule(const std::string& name) {
  if (profiler::ParseSchedule(name).has_value()) return {};
  std::string known;
  for (size_t i = 0; i < profiler::kSchedules; ++i) {
    known += (i == 0 ? "" : ", ") + std::string(ToString(static_cast<profiler::Schedule>(i)));
  }
  return InvalidArgument(Printable(name) + ": expected one of " + known);
}

// A flag's value is checked where it is parsed: a wrong one is a usage error.
CLI::Validator CheckedFlag(const std::function<Status(const std::string& text)>& check) {
  return CLI::Validator(
      [check](std::string& text) {
        const Status status = check(text);
        return status.ok() ? std::string() : std::string(status.message());
      },
      "");
}

int RunProfile(const ProfileFlags& flags) {
  if (!flags.memory.empty()) {
    const int code = ShowMemory(flags.memory);
    if (code != kExitOk || flags.traces.empty()) return code;
  }
  if (flags.traces.empty()) {
    Fail(InvalidArgument("no trace given: name files or folders, or --memory SNAPSHOT"));
    return kExitUsage;
  }
  if (flags.as_hta) return AsHta(flags);
  profiler::ReportOptions options;
  options.model_flops = flags.model_flops;
  if (!flags.device.empty()) options.device = spec::FindDevice(flags.device).value();
  std::optional<profiler::Schedule> schedule;
  if (!flags.schedule.empty()) schedule = profiler::ParseSchedule(flags.schedule);
  const Result<profiler::ProfiledJob> job = Load(flags, flags.traces);
  if (!job.ok()) return FailOrStopped(job.status());
  if (const Status met = MeetThePlanner(flags, *job); !met.ok()) return Fail(met);
  const profiler::Findings findings = profiler::FindAll(*job, schedule);
  if (!flags.html.empty()) {
    const Status written = io::WriteTextAtomically(io::PosixFileSystem(), flags.html,
                                                   ReportHtml(*job, findings, options));
    if (!written.ok()) return Fail(written.WithContext("--html"));
  }
  if (!flags.merged.empty()) {
    const Status written = WriteMerged(*job, flags.merged);
    if (!written.ok()) return Fail(written.WithContext("--trace"));
  }
  if (flags.json) {
    std::printf("%s\n", ReportJson(*job, findings, options).dump(1).c_str());
  } else {
    std::printf("%s", SummaryText(*job, findings, options).c_str());
  }
  if (flags.before.empty()) return kExitOk;
  const Result<profiler::ProfiledJob> before = Load(flags, flags.before);
  if (!before.ok()) return FailOrStopped(before.status().WithContext("--before"));
  std::printf("\n%s",
              CompareText(*before, profiler::FindAll(*before, schedule), *job, findings).c_str());
  return kExitOk;
}

}  // namespace

void AddProfileCommand(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ProfileFlags>();
  CLI::App* command = AddOwnCommand(app, kProfile);
  command->add_option("TRACE", flags->traces, "Trace files of torch.profiler, or folders of them");
  command->add_option("--memory", flags->memory,
                      "Analyse a memory snapshot (torch.cuda.memory._dump_snapshot)");
  command->add_option("--before", flags->before, "Compare with these traces of an earlier run");
  command->add_option("--html", flags->html, "Write one self-contained page to this file");
  command->add_option("--trace", flags->merged, "Write a merged trace for Perfetto to this file");
  command->add_option("--device", flags->device, "Name the accelerator, if the traces do not")
      ->check(CheckedFlag([](const std::string& name) { return spec::FindDevice(name).status(); }));
  command
      ->add_option("--model-flops", flags->model_flops,
                   "Compute MFU from these model FLOPs of a step of the whole job")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--refit", flags->refit,
                      "Write a device file fitted to traces of the built-in trainer");
  command->add_option("--predicted", flags->against,
                      "Compare each operator and layer with this device file");
  command->add_option("--step", flags->step, "Set the prefix of the annotations of steps");
  command
      ->add_option("--steps", flags->steps,
                   "Analyse only this step, or FIRST-LAST, by the numbers in their annotations")
      ->check(CheckedFlag(
          [](const std::string& text) { return profiler::ParseStepWindow(text).status(); }));
  command
      ->add_option(
          "--dimension", flags->dimensions,
          "Assign groups whose name or description contains TEXT to a dimension (TEXT=DIMENSION)")
      ->check(CheckedFlag([](const std::string& text) { return ParseDimension(text).status(); }));
  command
      ->add_option("--schedule", flags->schedule,
                   "Set the pipeline's schedule, if the traces do not show it: 1F1B, interleaved, "
                   "ZB-H1, ZB-H2, ZB-V or DualPipe")
      ->check(CheckedFlag(CheckSchedule));
  command
      ->add_option("--kernels", flags->kernels,
                   "Read classes of kernels from this file: lines of PATTERN = CLASS")
      ->check(CheckedFlag([](const std::string& path) { return ReadKernels(path).status(); }));
  command
      ->add_option("--ranks-per-host", flags->ranks_per_host,
                   "Set the number of ranks that share a clock")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}));
  command
      ->add_option("--threads", flags->threads, "Read this many traces at a time (default: cores)")
      ->check(CLI::Range(1u, 1024u));
  command
      ->add_option("--memory-mib", flags->memory_mib,
                   "Limit the memory of the profile (default: half of the machine's or the "
                   "container's); if not all steps fit, a sample of them is analysed")
      ->check(CLI::Range(uint64_t{16}, uint64_t{1} << 24));
  command->add_flag("--json", flags->json, "Print everything as one JSON object");
  command->add_flag("--as-hta", flags->as_hta,
                    "Print the numbers of HolisticTraceAnalysis instead");
  command->footer(
      "Examples:\n"
      "  longhaul profile traces/                            what to do first\n"
      "  longhaul profile traces/ --html page.html --trace merged.json\n"
      "  longhaul profile after/ --before before/            what changed\n"
      "  longhaul profile traces/ --steps 20-29              ten steps of many\n"
      "  longhaul profile runs/NAME/traces --refit device.json\n"
      "                                                      what the planner should know\n"
      "  longhaul profile --memory snapshot.pickle           who held the memory");
  command->callback([flags, &action] { action = [flags] { return RunProfile(*flags); }; });
}

}  // namespace longhaul::bin
