#include "bin/tools/calibrate_command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "bin/other_program.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "io/process/process.h"
#include "planner/evaluate.h"
#include "planner/local/device_file.h"
#include "planner/local/operator_times.h"
#include "planner/local/software_fit.h"
#include "service/device_file_path.h"
#include "service/trainer_program.h"
#include "trainer/calibrate/cuda/cuda_probe.h"

namespace longhaul::bin {
namespace {

using Json = nlohmann::ordered_json;
using planner::DeviceFile;
using planner::Figure;
using planner::FigureKind;

constexpr int kExitInterrupted = 130;  // the code that shells use for Ctrl-C
constexpr double kLeastRuntime = 1e-6;
constexpr size_t kLongestLine = planner::kLargestDeviceFile;

constexpr const char* kExamples = R"(Examples:
  longhaul calibrate                       measure, write ~/.config/longhaul/device.json
  longhaul calibrate --quick               a fifth of the sizes, some 15 seconds
  longhaul calibrate --output device.json  elsewhere; $LONGHAUL_DEVICE_FILE names it to `run`
  longhaul calibrate --device cuda         NVIDIA GPUs: matmuls, copies, memory, collectives
                                           (untested on hardware); ~/.config/longhaul/gpu.json
  longhaul calibrate --fit runs.csv --name my-cluster --output my-cluster.json
                                           one factor from up to three measured steps

Close other programs first: what they do to caches and memory is measured along.
The file's format: docs/calibrate.md.)";

struct Flags {
  bool quick = false;
  bool json = false;
  std::string output;
  std::string storage = ".";
  std::string fit;
  std::string name = "fitted";
  std::string device = "cpu";
};

// Shows lines of progress: over each other on a terminal, every tenth part elsewhere.
class ProgressView {
 public:
  void Show(const Json& line) {
    const auto done = line.value("done", uint64_t{0});
    const auto total = std::max<uint64_t>(1, line.value("total", uint64_t{1}));
    const uint64_t percent = std::min<uint64_t>(100, 100 * done / total);
    const std::string text =
        std::to_string(percent) + " %  " + Printable(line.value("what", std::string()), 60);
    if (terminal_) {
      std::fprintf(stderr, "\r\x1b[K  %s", text.c_str());
    } else if (percent >= next_percent_) {
      std::fprintf(stderr, "longhaul: %s\n", text.c_str());
      next_percent_ = percent / 10 * 10 + 10;
    }
    std::fflush(stderr);
  }
  void Clear() const {
    if (terminal_) std::fputs("\r\x1b[K", stderr);
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  uint64_t next_percent_ = 0;
};

// Runs programs and reads their lines, until they end or the user stops them. Ctrl-C reaches only
// this process: programs run in separate sessions.
class Watcher {
 public:
  Watcher() {
    sigset_t ends;
    sigemptyset(&ends);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, signal);
    sigprocmask(SIG_BLOCK, &ends, nullptr);
    signals_ = io::Fd(signalfd(-1, &ends, SFD_CLOEXEC));
  }

  // kCancelled after a request to stop, which ends the program and all processes that it started.
  Status Run(io::ProcessOptions options, const std::function<void(const std::string&)>& take) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return FromErrno(errno, "cannot make a pipe");
    const io::Fd reader(pipe[0]);
    io::Fd writer(pipe[1]);
    options.stdout_fd = writer.get();
    options.signal_on_parent_death = SIGKILL;
    ASSIGN_OR_RETURN(const io::Process process, io::Start(options));
    writer.Reset();
    const Status read = Read(reader, take);
    if (!read.ok()) (void)!io::SignalGroup(process.pid, SIGKILL).ok();
    ASSIGN_OR_RETURN(const io::ExitStatus status, io::Reap(process.pidfd));
    RETURN_IF_ERROR(read);
    if (status.exit_code != 0) {
      return InternalError(options.argv[0] + " failed; what it said stands above");
    }
    return {};
  }

 private:
  Status Read(const io::Fd& reader, const std::function<void(const std::string&)>& take) {
    std::string rest;
    std::array<char, 1 << 16> buffer;
    while (true) {
      pollfd ready[] = {{reader.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
      if (::poll(ready, 2, -1) < 0 && errno != EINTR) return FromErrno(errno, "cannot wait");
      if (ready[1].revents != 0) return CancelledError("interrupted, nothing was written");
      if (ready[0].revents == 0) continue;
      const ssize_t got = ::read(reader.get(), buffer.data(), buffer.size());
      if (got <= 0) return {};
      rest.append(buffer.data(), static_cast<size_t>(got));
      if (rest.size() > kLongestLine) return DataLoss("a measuring program says too much");
      for (size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n')) {
        take(rest.substr(0, end));
        rest.erase(0, end + 1);
      }
    }
  }

  io::Fd signals_;
};

// What the trainer's program measures.
Result<DeviceFile> MeasureOperators(const Flags& flags, const std::string& trainer,
                                    Watcher& watcher, ProgressView& view) {
  io::ProcessOptions options;
  options.argv = {trainer, "--calibrate", flags.quick ? "quick" : "full", flags.storage};
  options.environment = io::CurrentEnvironment();
  std::string device;
  const Status ran = watcher.Run(options, [&](const std::string& text) {
    const Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object()) return;
    const auto found = line.find("device");
    if (found == line.end()) return view.Show(line);
    device = found->dump();
  });
  view.Clear();
  RETURN_IF_ERROR(ran);
  return planner::ParseDeviceFile(device);
}

// A job of nearly no work, so that its step is what stands around the trainer.
std::string EmptyJob(const std::string& text_file, uint32_t workers, bool quick) {
  const Json job = {
      {"name", "calibrate"},
      {"model", {{"kind", "gpt"}, {"layers", 1}, {"hidden", 32}, {"heads", 2}, {"sequence", 32}}},
      {"data", {{"include", {text_file}}, {"held_out", 0}}},
      {"train",
       {{"steps", quick ? 80 : 300},
        {"global_batch", 2 * workers},
        {"evaluate_every", 0},
        {"evaluate_sequences", 1}}},
      {"sample", {{"bytes", 1}}},
      {"resources", {{"nodes", 2}, {"processes_per_node", workers / 2}, {"micro_batch", 2}}}};
  return job.dump();
}

// The time of a step beyond its operators and its sum when agents and controller run beside the
// workers: a whole run in `directory`, compared with the figures of `file`.
Result<Figure> MeasureRuntime(const DeviceFile& file, uint32_t workers,
                              const std::string& directory, Watcher& watcher) {
  io::FileSystem& files = io::PosixFileSystem();
  const std::string name = directory + "/" + std::to_string(workers);
  std::string text;
  while (text.size() < 1 << 16) text += "int sum(int a, int b) { return a + b; }\n";
  RETURN_IF_ERROR(io::WriteTextAtomically(files, name + ".h", text));
  // With next to nothing for what is measured here, so that nothing is assumed in its place.
  Figure figure;
  figure.kind = FigureKind::kRuntime;
  figure.sizes = {double(workers), 0, 0};
  figure.forward_s = kLeastRuntime;
  figure.repeats = 1;
  DeviceFile without = file;
  without.figures.push_back(figure);
  RETURN_IF_ERROR(io::WriteTextAtomically(files, name + ".device", planner::ToJson(without)));
  RETURN_IF_ERROR(
      io::WriteTextAtomically(files, name + ".json", EmptyJob(name + ".h", workers, file.quick)));
  ASSIGN_OR_RETURN(const std::string program, io::ProgramDirectory());
  io::ProcessOptions options;
  options.argv = {program + "/longhaul",
                  "run",
                  name + ".json",
                  "--run-dir",
                  name,
                  "--quiet",
                  "--cluster-slots",
                  std::to_string(workers / 2)};
  options.environment = io::CurrentEnvironment();
  options.environment["LONGHAUL_DEVICE_FILE"] = name + ".device";
  RETURN_IF_ERROR(watcher.Run(options, [](const std::string&) {}));
  ASSIGN_OR_RETURN(const std::string report, io::ReadText(name + "/report.json", 1 << 24));
  const Json json = Json::parse(report, nullptr, /*allow_exceptions=*/false);
  const Json step =
      json.is_object() && json.contains("prediction") && json["prediction"].is_object()
          ? json["prediction"].value("step_seconds", Json())
          : Json();
  if (!step.is_object() || !step.value("measured", Json()).is_number()) {
    return InternalError("a run without a measured step");
  }
  figure.forward_s =
      std::max(kLeastRuntime, step["measured"].get<double>() - step["predicted"].get<double>());
  return figure;
}

// Runs of two workers, and of twice as many as there are cores.
Status AddRuntime(Watcher& watcher, ProgressView& view, DeviceFile& file) {
  std::string pattern = (std::filesystem::temp_directory_path() / "longhaul-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) return FromErrno(errno, "cannot make " + pattern);
  Status status;
  std::vector<Figure> figures;
  for (const uint32_t workers : {2u, 2 * file.cores}) {
    if (!figures.empty() && workers == figures.back().sizes[0]) continue;
    view.Show({{"done", 1},
               {"total", 1},
               {"what", "a run of " + std::to_string(workers) + " workers with nothing to do"}});
    const auto figure = MeasureRuntime(file, workers, pattern, watcher);
    status = figure.status();
    if (!status.ok()) break;
    figures.push_back(*figure);
  }
  view.Clear();
  std::error_code ignored;
  std::filesystem::remove_all(pattern, ignored);
  RETURN_IF_ERROR(status);
  file.figures.insert(file.figures.end(), figures.begin(), figures.end());
  return {};
}

std::string Rate(double per_second, const char* unit) {
  char text[40];
  std::snprintf(text, sizeof(text), per_second < 100 ? "%.3g %s" : "%.0f %s", per_second, unit);
  return text;
}

// Prints a summary for a person.
void Print(const DeviceFile& file, const std::string& path) {
  const planner::OperatorTimes times(file.figures);
  std::printf("\n %s, %u cores, %s\n\n", Printable(file.machine).c_str(), file.cores,
              ToString(file.memory).c_str());
  const auto line = [](const char* name, const std::string& value) {
    std::printf(" %-22s %s\n", name, value.c_str());
  };
  line("matmuls", "up to " + Rate(times.best_flops_per_s() * 1e-9, "GFLOP/s a core"));
  for (const auto& [name, kind] : {std::pair{"layer norm", FigureKind::kNorm},
                                   {"gelu", FigureKind::kActivation},
                                   {"addition", FigureKind::kResidual},
                                   {"cross entropy", FigureKind::kLoss}}) {
    const double rows = 1024;
    const double width = kind == FigureKind::kLoss ? 257 : 512;
    const auto time = times.Of(kind, {rows, width, 0});
    line(name, Rate(1e-6 * rows * width / time.total(), "million elements/s, both ways"));
  }
  line("optimizer", Rate(1e-6 * 1e6 / times.Of(FigureKind::kOptimizer, {1e6, 0, 0}).forward_s,
                         "million parameters/s"));
  const auto launch = times.Of(FigureKind::kLaunch, {});
  line("launch of an operator",
       Rate(1e6 * launch.forward_s, "us forward, ") + Rate(1e6 * launch.backward_s, "us backward"));
  const double ranks = std::max(2u, file.cores);
  line("all-reduce of 4 MB",
       Rate(1e3 * times.Of(FigureKind::kAllReduce, {ranks, 4e6, 0}).forward_s, "ms over ") +
           std::to_string(static_cast<int>(ranks)) + " workers");
  line("runtime beside it",
       Rate(1e3 * times.Of(FigureKind::kRuntime, {ranks, 0, 0}).forward_s, "ms a step"));
  line("memory copy", Rate(64e-3 / times.Of(FigureKind::kCopy, {64e6, 0, 0}).forward_s, "GB/s"));
  line("storage, synced",
       Rate(32 / times.Of(FigureKind::kStorage, {32e6, 0, 0}).forward_s, "MB/s"));
  line("a worker's process", ToString(file.process_memory));
  std::printf("\n %zu figures in %.0f s, in %s\n\n", file.figures.size(), file.calibration_s,
              path.c_str());
}

Status Write(const DeviceFile& file, const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  io::FileSystem& files = io::PosixFileSystem();
  if (!parent.empty()) RETURN_IF_ERROR(files.MakeDirectories(parent.string()));
  return io::WriteTextAtomically(files, path, planner::ToJson(file));
}

// The planner's prediction of a step; the case's open choices are decided once.
Result<planner::StackFactor> Fit(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string csv, io::ReadText(flags.fit, planner::kLargestRunsFile + 1));
  ASSIGN_OR_RETURN(auto rows, planner::ParseRuns(csv, flags.fit));
  for (planner::MeasuredStep& row : rows) {
    const auto evaluate = [](const planner::Question& question) {
      return planner::Evaluator(question.model, question.cluster, question.training.software)
          .Evaluate(question.training);
    };
    const Status decided = planner::DecideOpen(evaluate, row.asked);
    if (!decided.ok()) return decided.WithContext(flags.fit + ":" + std::to_string(row.line));
  }
  const auto predict = [](const planner::MeasuredStep& row, double factor) {
    const planner::Question& question = row.asked.question;
    spec::Software software = question.training.software;
    software.compute_factor = factor;
    return planner::Evaluator(question.model, question.cluster, software)
        .StepSeconds(question.training)
        .count();
  };
  return planner::FitFactor(flags.name, rows, predict);
}

int RunFit(const Flags& flags) {
  const auto factor = Fit(flags);
  if (!factor.ok()) {
    Fail(factor.status());
    return factor.status().code() == Code::kInvalidArgument ? kExitUsage : kExitFailure;
  }
  const std::string path = flags.output.empty() ? "stack.json" : flags.output;
  const Status written =
      io::WriteTextAtomically(io::PosixFileSystem(), path, planner::ToJson(*factor));
  if (!written.ok()) return Fail(written);
  if (flags.json) {
    std::fputs(planner::ToJson(*factor).c_str(), stdout);
  } else {
    std::printf(
        "%s: kernels take %.3f times the time; error of %u measured step%s %.1f %% before, "
        "%.1f %% after. In %s, for longhaul plan --stack.\n",
        Printable(factor->name).c_str(), factor->compute_factor, factor->rows,
        factor->rows == 1 ? "" : "s", 100 * factor->error_before, 100 * factor->error_after,
        path.c_str());
  }
  return kExitOk;
}

// By default beside the device file.
std::string GpuPath(const Flags& flags) {
  if (!flags.output.empty()) return flags.output;
  const std::string device = service::DefaultDeviceFile();
  if (device.empty()) return "gpu.json";
  return (std::filesystem::path(device).parent_path() / "gpu.json").string();
}

// The GPUs of this machine. kUnavailable where there are none.
Status RunCuda(const Flags& flags) {
  ProgressView view;
  trainer::CudaOptions options;
  options.quick = flags.quick;
  const auto measured =
      trainer::MeasureGpus(options, [&view](size_t done, size_t total, const std::string& what) {
        view.Show({{"done", done}, {"total", total}, {"what", what}});
      });
  view.Clear();
  RETURN_IF_ERROR(measured.status());
  planner::GpuFile file = measured->file;
  file.measured_at = ToString(io::Now());
  const std::string path = GpuPath(flags);
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  io::FileSystem& files = io::PosixFileSystem();
  if (!parent.empty()) RETURN_IF_ERROR(files.MakeDirectories(parent.string()));
  const std::string text = planner::ToJson(file);
  RETURN_IF_ERROR(io::WriteTextAtomically(files, path, text));
  for (const std::string& note : measured->notes) {
    std::fprintf(stderr, "note: %s\n", note.c_str());
  }
  if (flags.json) {
    std::fputs(text.c_str(), stdout);
    return {};
  }
  std::printf("%u x %s, %s each: %zu figures in %s, for longhaul plan MODEL %s\n", file.gpus,
              Printable(file.machine).c_str(), ToString(file.memory).c_str(), file.figures.size(),
              path.c_str(), path.c_str());
  if (file.gpus > 1) {
    std::printf("Collectives are untested on hardware: hold a few against what you know.\n");
  }
  return {};
}

int RunCalibrate(const Flags& flags) {
  if (!flags.fit.empty()) return RunFit(flags);
  if (flags.device == "cuda") {
    const Status status = RunCuda(flags);
    if (status.ok()) return kExitOk;
    if (status.code() != Code::kUnavailable) return Fail(status.WithContext("--device cuda"));
    std::fprintf(stderr, "longhaul: --device cuda: %s; measuring the CPU instead\n",
                 status.message().c_str());
  }
  const std::string path = flags.output.empty() ? service::DefaultDeviceFile() : flags.output;
  if (path.empty()) {
    return Fail(
        FailedPrecondition("neither HOME nor XDG_CONFIG_HOME is set: name a file with "
                           "--output"));
  }
  const std::string trainer = service::FindTrainer();
  if (trainer.empty()) return Fail(service::NoTrainer());
  Watcher watcher;
  ProgressView view;
  const Instant began = io::MonotonicNow();
  Result<DeviceFile> file = MeasureOperators(flags, trainer, watcher, view);
  const Status around = file.ok() ? AddRuntime(watcher, view, *file) : file.status();
  if (!around.ok()) {
    Fail(around);
    return around.code() == Code::kCancelled ? kExitInterrupted : kExitFailure;
  }
  file->calibration_s = ToSeconds(io::MonotonicNow() - began);
  file->measured_at = ToString(io::Now());
  file->versions["longhaul"] = LONGHAUL_VERSION;
  const Status written = Write(*file, path);
  if (!written.ok()) return Fail(written);
  if (flags.json) {
    std::fputs(planner::ToJson(*file).c_str(), stdout);
  } else {
    Print(*file, path);
  }
  return kExitOk;
}

}  // namespace

void AddCalibrateCommand(CLI::App& app, Action& action) {
  CLI::App* command = AddOwnCommand(app, kCalibrate);
  command->footer(kExamples);
  auto flags = std::make_shared<Flags>();
  command->add_flag("--quick", flags->quick,
                    "Measure fewer sizes: less certain, a quarter of the time");
  command
      ->add_option("--device", flags->device,
                   "cpu, or cuda: the NVIDIA GPUs here, by their own libraries opened at run time "
                   "(without a driver the CPU is measured)")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--output", flags->output,
                      "Write the device file to this path (default: "
                      "~/.config/longhaul/device.json, gpu.json for cuda)");
  command->add_option("--storage", flags->storage, "Measure the disk of this folder (default: .)")
      ->check(CLI::ExistingDirectory);
  command->add_flag("--json", flags->json, "Print the device file instead of a summary");
  command->add_option("--fit", flags->fit,
                      "Measure nothing: fit one factor to at most three steps of RUNS.csv");
  command->add_option("--name", flags->name, "Name the factor that --fit finds (default: fitted)");
  command->callback([&action, flags] { action = [flags] { return RunCalibrate(*flags); }; });
}

}  // namespace longhaul::bin
