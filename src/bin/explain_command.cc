#include "bin/explain_command.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/format.h"
#include "bin/command_line.h"
#include "frontend/explain/run_files.h"
#include "frontend/explain/run_page.h"
#include "io/files/file.h"
#include "proto/json.h"
#include "service/client/endpoint.h"
#include "service/client/rest_client.h"
#include "story/run_totals.h"
#include "story/story.h"
#include "story/story_json.h"
#include "story/story_text.h"

namespace longhaul::bin {
namespace {

struct ExplainOptions {
  std::string run;
  std::string job;
  std::optional<uint32_t> fault;
  bool json = false;
  std::string html;
  service::EndpointChoice endpoint;
};

// The notifications and the status of a job that a controller has.
Result<story::RunRecord> RecordOfController(const ExplainOptions& options) {
  ASSIGN_OR_RETURN(const service::Endpoint endpoint, service::FindEndpoint(options.endpoint));
  service::RestClient client(endpoint);
  const std::string path = "/v1/jobs/" + service::UrlEncode(options.run);
  ASSIGN_OR_RETURN(const service::Json answer, client.Get(path));
  proto::JobStatus status;
  RETURN_IF_ERROR(proto::FromJson(answer.dump(), &status));
  story::RunRecorder recorder(status.job().id());
  uint64_t after = 0;
  while (true) {
    ASSIGN_OR_RETURN(const service::Json page,
                     client.Get(path + "/events?after=" + std::to_string(after)));
    const auto events = page.find("events");
    if (events == page.end() || !events->is_array() || events->empty()) break;
    for (const service::Json& event : *events) {
      proto::Notification notification;
      const auto data = event.find("data");
      if (data == event.end()) continue;
      if (proto::FromJson(data->dump(), &notification).ok()) {
        recorder.TakeNotification(notification);
      }
    }
    const uint64_t last = page.value("last", uint64_t{0});
    if (last <= after) break;
    after = last;
  }
  story::RunRecord record = recorder.Record();
  record.totals = story::TotalsOf(status);
  // The workers' output, if the run lies on this machine.
  std::error_code error;
  const std::string& folder = status.job().run_directory();
  if (std::filesystem::is_directory(folder, error)) record.run_directory = folder;
  return record;
}

// The page of the run, from what the run has left.
int WriteHtml(const ExplainOptions& options) {
  if (!options.endpoint.controller.empty() || options.json || options.fault.has_value()) {
    std::fprintf(stderr,
                 "longhaul: --html writes the page of a whole run from its directory: leave out "
                 "--controller, --json and --fault\n");
    return kExitUsage;
  }
  const Result<std::string> page = frontend::RunPage(options.run, options.job, std::nullopt);
  if (!page.ok()) {
    const Code code = page.status().code();
    Fail(page.status());
    return code == Code::kNotFound || code == Code::kInvalidArgument ? kExitUsage : kExitFailure;
  }
  const Status written = io::WriteTextAtomically(io::PosixFileSystem(), options.html, *page);
  if (!written.ok()) {
    Fail(written);
    return kExitFailure;
  }
  std::printf("Page: %s\n", Harmless(options.html).c_str());
  return kExitOk;
}

int Explain(const ExplainOptions& options) {
  if (!options.html.empty()) return WriteHtml(options);
  const bool asks = !options.endpoint.controller.empty();
  Result<story::RunRecord> record =
      asks ? RecordOfController(options) : frontend::ReadRun(options.run, options.job);
  if (!record.ok()) {
    const Code code = record.status().code();
    const bool wrong = code == Code::kNotFound || code == Code::kInvalidArgument;
    Fail(record.status());
    return wrong ? kExitUsage : kExitFailure;
  }
  frontend::ReadOutputs(story::MakeStory(*record), *record);
  const story::Story story = story::MakeStory(*record);
  if (options.fault.has_value()) {
    bool known = false;
    for (const story::FaultStory& each : story.faults) known |= each.number == *options.fault;
    if (!known) {
      std::fprintf(stderr, "longhaul: --fault %u: %s has %s\n", *options.fault,
                   Harmless(story.job_id).c_str(),
                   story.faults.empty() ? "no fault"
                                        : ("faults " + std::to_string(story.faults.front().number) +
                                           " to " + std::to_string(story.faults.back().number))
                                              .c_str());
      return kExitUsage;
    }
  }
  const std::string text =
      options.json ? story::StoryJson(story, options.fault)
                             .dump(2, ' ', false, service::Json::error_handler_t::replace) +
                         "\n"
                   : story::StoryText(story, options.fault);
  std::fputs(text.c_str(), stdout);
  return kExitOk;
}

}  // namespace

void AddExplainCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* explain =
      app.add_subcommand("explain", "Explain the faults of a run: evidence, actions and cost")
          ->group(kGroupRun);
  explain
      ->add_option("RUN", options->run,
                   "The run's directory, a folder with an event log, or, with --controller, a job "
                   "by id or name")
      ->required();
  explain->add_option("--job", options->job,
                      "Explain this job of the event log, by id or name (default: the newest one "
                      "of the run's directory)");
  explain->add_option("--fault", options->fault, "Explain only the fault with this number");
  explain->add_flag("--json", options->json, "Print JSON instead of text");
  explain->add_option(
      "--html", options->html,
      "Write the web page of the run as one file, which opens without a controller");
  explain->add_option("--controller", options->endpoint.controller,
                      "Read the job from the controller at this URL");
  AddCredentialOptions(*explain, options->endpoint.token_file, options->endpoint.ca_file);
  explain->footer(
      "Examples:\n"
      "  longhaul explain runs/headers-gpt\n"
      "  longhaul explain runs/headers-gpt --fault 2\n"
      "  longhaul explain runs/headers-gpt --json\n"
      "  longhaul explain runs/headers-gpt --html report.html\n"
      "  longhaul explain runs --job tune-3\n"
      "  longhaul explain tune-3 --controller https://controller:8443");
  explain->callback([&action, options] { action = [options] { return Explain(*options); }; });
}

}  // namespace longhaul::bin
