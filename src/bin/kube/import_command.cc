#include "bin/kube/import_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engines/kubernetes/import/importer.h"
#include "engines/kubernetes/import/manifest/manifest_reader.h"
#include "engines/kubernetes/import/manifest/manifest_writer.h"
#include "io/files/file.h"

namespace longhaul::bin {
namespace {

namespace kubernetes = engines::kubernetes;

constexpr const char* kImportHelp =
    "Translate TrainJobs, PyTorchJobs and ElasticJobs to LonghaulJobs\n\n"
    "Reads manifests (YAML or JSON) of Kubeflow Trainer, Kubeflow's training operator and "
    "DLRover,\n"
    "and prints LonghaulJobs that the API server and the operator accept. Reports each field that\n"
    "is changed or not translated on standard error, with its path. Calls no cluster.";
constexpr const char* kImportExamples =
    "Examples:\n"
    "  longhaul kube import mnist.yaml > mnist-longhaul.yaml\n"
    "  longhaul kube import runtime.yaml train-job.yaml --output job.yaml\n"
    "  kubectl get pytorchjobs -o yaml | longhaul kube import - --strict | kubectl apply -f -\n"
    "  longhaul kube import mnist.yaml --json | jq '.dropped[] | .path, .reason'\n"
    "Exit code: 0, or 1 if a job cannot be translated, and with --strict if anything is dropped;\n"
    "nothing is printed or written then. docs/kube-import.md has a table with each field.";
constexpr const char* kStandardInput = "-";

struct ImportOptions {
  std::vector<std::string> files;
  std::string output;
  bool json = false;
  bool strict = false;
};

// Up to one byte beyond the limit, which the reader of manifests refuses.
Result<std::string> ReadStandardInput() {
  std::string text;
  std::vector<char> buffer(size_t{1} << 16);
  while (text.size() <= kubernetes::kMostManifestBytes) {
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FromErrno(errno, "cannot read standard input");
    if (count == 0) break;
    text.append(buffer.data(), static_cast<size_t>(count));
  }
  return text;
}

Result<std::vector<kubernetes::Manifest>> ReadAllFiles(const std::vector<std::string>& files) {
  std::vector<kubernetes::Manifest> manifests;
  for (const std::string& file : files) {
    const bool standard = file == kStandardInput;
    ASSIGN_OR_RETURN(
        const std::string text,
        standard ? ReadStandardInput() : io::ReadText(file, kubernetes::kMostManifestBytes));
    ASSIGN_OR_RETURN(std::vector<kubernetes::Manifest> more,
                     kubernetes::ReadManifests(text, standard ? "standard input" : file));
    std::move(more.begin(), more.end(), std::back_inserter(manifests));
  }
  return manifests;
}

// The manifests, and with --json the report in the same object. kubectl applies the items.
std::string OutputOf(const kubernetes::ImportResult& result, bool json) {
  if (!json) return kubernetes::ToYamlDocuments(result.jobs);
  kubernetes::JobJson list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", result.jobs}};
  list.update(result.report.ToJson());
  // The name of a file may be no UTF-8.
  return list.dump(2, ' ', false, kubernetes::JobJson::error_handler_t::replace) + "\n";
}

Status Write(const std::string& text, const std::string& output) {
  if (!output.empty()) return io::WriteTextAtomically(io::PosixFileSystem(), output, text);
  const bool good =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return good ? Status() : FromErrno(errno, "cannot write to standard output");
}

int Import(const ImportOptions& options) {
  if (std::ranges::count(options.files, kStandardInput) > 1) {
    std::fprintf(stderr, "longhaul: FILE: expected '-' (standard input) once at most\n");
    return kExitUsage;
  }
  const Result<std::vector<kubernetes::Manifest>> manifests = ReadAllFiles(options.files);
  if (!manifests.ok()) return Fail(manifests.status());
  const Result<kubernetes::ImportResult> result = kubernetes::ImportJobs(*manifests);
  if (!result.ok()) return Fail(result.status());
  const size_t dropped = result->report.Count(kubernetes::ImportOutcome::kDropped);
  const bool refused = options.strict && dropped > 0;
  // With --json the report is part of the output, which --strict may suppress.
  if (!options.json || refused) std::fputs(result->report.ToText().c_str(), stderr);
  if (refused) {
    return Fail(FailedPrecondition(std::to_string(dropped) +
                                   " parts are not translated (--strict): remove them from the "
                                   "files, or leave --strict out"));
  }
  const Status written = Write(OutputOf(*result, options.json), options.output);
  return written.ok() ? kExitOk : Fail(written);
}

}  // namespace

void AddImportCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<ImportOptions>();
  CLI::App* command = app.add_subcommand("import", kImportHelp);
  command->footer(kImportExamples);
  command
      ->add_option("FILE", options->files,
                   "Manifests, and runtimes that TrainJobs name; - for standard input")
      ->required();
  command->add_option("-o,--output", options->output,
                      "Write the LonghaulJobs to this file instead of standard output");
  command->add_flag("--json", options->json,
                    "Print a List with the jobs and the report: changed, dropped, notNeeded");
  command->add_flag("--strict", options->strict, "Fail if anything is dropped");
  command->callback([&action, options] { action = [options] { return Import(*options); }; });
}

}  // namespace longhaul::bin
