// `longhaul what-if`: what a change of the cluster would mean for each job.
#include <cstdio>
#include <string>

#include "base/format.h"
#include "base/text.h"
#include "base/time.h"
#include "bin/client/client.h"
#include "bin/table.h"
#include "io/files/file.h"
#include "runtime/scheduling/what_if_change.h"

namespace longhaul::bin::client {
namespace {

using runtime::scheduling::WhatIfChange;

constexpr uint64_t kLargestScenario = 1 << 20;

// The change as REST takes it: a job file is read here.
Result<Json> ChangeOf(const std::string& text) {
  ASSIGN_OR_RETURN(const WhatIfChange change, runtime::scheduling::ParseWhatIfChange(text));
  if (change.kind != WhatIfChange::Kind::kSubmit) return Json(text);
  ASSIGN_OR_RETURN(const std::string job, io::ReadText(change.subject, kLargestScenario));
  return Json{{"submit", job}, {"source", change.subject}};
}

void PrintAnswer(const Json& answer) {
  Table table({"JOB", "EFFECT", ""});
  for (const Json& job : answer["jobs"]) {
    table.Add({job["job"].get<std::string>(), job["effect"].get<std::string>(),
               job["sentence"].get<std::string>()});
  }
  if (answer["jobs"].empty()) {
    std::printf("No job is affected.\n");
  } else {
    std::printf("%s", table.Text().c_str());
  }
  const Duration known(answer["until_ns"].get<int64_t>() - answer["now_ns"].get<int64_t>());
  std::printf("%llu jobs compared over the next %s.\n",
              static_cast<unsigned long long>(answer["compared"].get<uint64_t>()),
              ToString(known).c_str());
  if (answer["cut"].get<bool>()) {
    std::printf(
        "The comparison ends before the horizon: it reached its limit of rounds or of time.\n");
  }
  if (!answer["unknown_durations"].empty()) {
    std::printf("Of unknown duration (30 minutes are assumed): %s\n",
                Harmless(Names(answer["unknown_durations"])).c_str());
  }
}

int WhatIf(RestClient& client, const Options& options) {
  Json body = {{"changes", Json::array()}};
  for (const std::string& text : options.subjects) {
    auto change = ChangeOf(text);
    if (!change.ok()) return Fail(change.status()), kExitUsage;
    body["changes"].push_back(*std::move(change));
  }
  if (!options.horizon.empty()) body["horizon"] = options.horizon;
  const auto answer = client.Post("/v1/what-if", body);
  if (!answer.ok()) {
    Fail(answer.status());
    const Code code = answer.status().code();
    const bool bad_input = code == Code::kInvalidArgument || code == Code::kNotFound ||
                           code == Code::kFailedPrecondition;
    return bad_input ? kExitUsage : kExitFailure;
  }
  if (options.json) return PrintJson(*answer), kExitOk;
  PrintAnswer(*answer);
  return kExitOk;
}

}  // namespace

void AddWhatIf(CLI::App& app, Action& action, const std::shared_ptr<Options>& options) {
  CLI::App* command =
      Add(app, action, "what-if", "Show what changes of the cluster would mean for each job",
          WhatIf, options);
  command
      ->add_option(
          "CHANGE", options->subjects,
          "drain [LEVEL] NAME; add N MODEL [per-node K] [in LEAF]; queue NAME guarantee N;\n"
          "queue NAME limit N; stop JOB; submit FILE")
      ->required();
  command->add_option("--horizon", options->horizon,
                      "Compare this much of the future (default: 24h)");
  command->add_flag("--json", options->json, kJsonHelp);
  command->footer(
      "The changes are made to a copy of the controller's scheduler; nothing happens to the\n"
      "cluster (docs/what-if.md). Examples:\n"
      "  longhaul what-if 'drain rack-3'\n"
      "  longhaul what-if 'add 64 H100 per-node 8' 'queue research guarantee 128'\n"
      "  longhaul what-if 'submit job.yaml' --horizon 7d --json");
}

}  // namespace longhaul::bin::client
