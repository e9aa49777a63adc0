// Jobs handed in, shown, changed and stopped.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/format.h"
#include "base/time.h"
#include "bin/client/client.h"
#include "bin/table.h"
#include "frontend/job_request.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "io/process/user_name.h"

namespace longhaul::bin::client {
namespace {

using service::UrlEncode;

constexpr uint64_t kLargestJobFile = 1 << 20;
constexpr const char* kElementsHelp = "List each element of an array, not the array as one";

std::string StepText(const Json& job) {
  const auto total = job["job"]["total_steps"].get<uint64_t>();
  const std::string step = std::to_string(job["step"].get<uint64_t>());
  return total == 0 ? step : step + "/" + std::to_string(total);
}

void PrintSubmitted(const Json& job) {
  const std::string elements =
      job.contains("elements")
          ? ": " + std::to_string(job["elements"].get<uint64_t>()) + " elements"
          : "";
  std::printf("submitted %s%s\n  plan: %s\n  run directory: %s\n",
              job["id"].get<std::string>().c_str(), elements.c_str(),
              job["plan_reason"].get<std::string>().c_str(),
              job["run_directory"].get<std::string>().c_str());
}

int Submit(RestClient& client, const Options& options) {
  const auto text = io::ReadText(options.job, kLargestJobFile);
  if (!text.ok()) return Fail(text.status());
  Json body = {{"job", *text}, {"source", options.job}};
  body["user"] = options.user.empty() ? io::UserName() : options.user;
  if (!options.name.empty()) body["name"] = options.name;
  if (!options.inject.empty()) body["inject"] = options.inject;
  if (!options.run_directory.empty()) {
    // The controller may run elsewhere on this machine.
    body["run_directory"] = std::filesystem::absolute(options.run_directory).string();
  }
  if (!options.from.empty()) body["from"] = frontend::WholePlace(options.from);
  if (options.resume) body["resume"] = true;
  const auto answer = client.Post("/v1/jobs", body);
  if (!answer.ok()) {
    Fail(answer.status());
    const Code code = answer.status().code();
    const bool bad_input = code == Code::kInvalidArgument || code == Code::kFailedPrecondition;
    return bad_input ? kExitUsage : kExitFailure;
  }
  if (options.json) std::printf("%s\n", answer->dump().c_str());
  const Json jobs = answer->contains("jobs") ? (*answer)["jobs"] : Json::array({*answer});
  for (const Json& job : jobs) {
    if (!options.json) PrintSubmitted(job);
  }
  std::fflush(stdout);
  if (!options.watch) return kExitOk;
  const Json& job = jobs[0];
  if (jobs.size() == 1 && !job.contains("elements")) {
    return FollowJob(client, job["id"].get<std::string>(), options.json);
  }
  std::fprintf(stderr,
               "longhaul: --watch follows one job, and several were submitted: longhaul jobs "
               "lists them, longhaul events JOB --follow follows one\n");
  return kExitOk;
}

// The values of a job's environment are shown on request.
const char* EnvironmentQuery(const Options& options) {
  return options.environment ? "?environment=true" : "";
}

// "3 running, 13 queued" of an array; empty for a job.
std::string ElementsText(const Json& job) {
  std::string text;
  if (!job.contains("elements")) return text;
  for (const Json& count : job["elements"]) {
    text += (text.empty() ? "" : ", ") + std::to_string(count["jobs"].get<uint64_t>()) + " " +
            count["state"].get<std::string>();
  }
  return text;
}

int PrintJobs(RestClient& client, const Options& options, const std::string& path) {
  const auto answer = client.Get(path);
  if (!answer.ok()) return Fail(answer.status());
  if (options.json) return PrintJson(*answer), kExitOk;
  const Json& jobs = (*answer)["jobs"];
  if (jobs.empty()) return std::printf("no jobs yet: longhaul submit JOB.yaml\n"), kExitOk;
  const bool arrays = std::any_of(jobs.begin(), jobs.end(),
                                  [](const Json& job) { return !ElementsText(job).empty(); });
  std::vector<std::string> head = {"JOB",     "STATE", "STEP",   "LOSS",     "TOKENS/S",
                                   "GOODPUT", "ETA",   "FAULTS", "SUBMITTED"};
  if (arrays) head.emplace_back("ELEMENTS");
  Table table(head);
  for (const Json& job : jobs) {
    const std::string elements = ElementsText(job);
    const bool one = elements.empty();
    const double eta = Number(job, "eta_seconds");
    std::vector<std::string> row = {
        job["job"]["id"].get<std::string>(),
        job["state"].get<std::string>(),
        one ? StepText(job) : "-",
        Number(job, "loss") == 0.0 ? "-" : Decimal(Number(job, "loss"), 3),
        one ? Compact(Number(job, "tokens_per_second")) : "-",
        one && job.contains("ledger") ? Percent(Number(job["ledger"], "goodput")) : "-",
        eta < 0 ? "-" : SecondsText(eta),
        one ? std::to_string(job["faults"].size()) : "-",
        Ago(job["submitted_at_ns"])};
    if (arrays) row.push_back(one ? "-" : elements);
    table.Add(row);
  }
  std::printf("%s", table.Text().c_str());
  return kExitOk;
}

int Jobs(RestClient& client, const Options& options) {
  std::string query = EnvironmentQuery(options);
  if (options.elements) query += (query.empty() ? "?" : "&") + std::string("elements=true");
  return PrintJobs(client, options, "/v1/jobs" + query);
}

// " (3 of 1 to 4; 2 before)" of an elastic job: what it has, may have and had.
std::string SizeText(const Json& job) {
  const auto least = static_cast<uint64_t>(Number(job["job"], "minimum_nodes"));
  const auto most = static_cast<uint64_t>(Number(job["job"], "maximum_nodes"));
  if (least >= most) return "";
  std::string text = " (" + std::to_string(job["gang"].size()) + " of " + std::to_string(least) +
                     " to " + std::to_string(most);
  const auto limit = static_cast<uint64_t>(Number(job["job"], "node_limit"));
  if (limit > 0) text += "; scaled to " + std::to_string(limit) + " at most";
  constexpr size_t kShown = 8;
  const Json none = Json::array();
  const Json& sizes = job.contains("sizes") ? job["sizes"] : none;
  std::string before;
  for (size_t i = sizes.size() > kShown ? sizes.size() - kShown : 0; i + 1 < sizes.size(); ++i) {
    before += (before.empty() ? "; before " : ", ") +
              std::to_string(static_cast<uint64_t>(Number(sizes[i], "nodes")));
  }
  return text + before + ")";
}

// "node-1: 0,1; node-2: 0,1"; empty: no devices are assigned.
std::string DevicesText(const Json& job) {
  std::string text;
  if (!job.contains("devices")) return text;
  for (const Json& node : job["devices"]) {
    text += (text.empty() ? "" : "; ") + node["node"].get<std::string>() + ": ";
    for (size_t i = 0; i < node["devices"].size(); ++i) {
      text += (i == 0 ? "" : ",") + std::to_string(node["devices"][i].get<uint64_t>());
    }
  }
  return text;
}

// Whether the nodes share a domain of the preferred level; empty: none is preferred, or the job
// has no nodes.
std::string PreferredText(const Json& job) {
  const Json& scheduling = job["job"]["scheduling"];
  const std::string level = scheduling.value("preferred_topology", "");
  if (level.empty() || job["gang"].empty()) return "";
  const std::string domain = job.value("preferred_domain", "");
  return domain.empty() ? "its nodes do not share one " + level : level + " " + domain;
}

void PrintJob(const Json& job) {
  const auto line = [](const char* key, const std::string& value) {
    if (!value.empty()) std::printf("  %-14s %s\n", key, Harmless(value).c_str());
  };
  std::printf("%s: %s\n", job["job"]["id"].get<std::string>().c_str(),
              job["state"].get<std::string>().c_str());
  line("reason", job["reason"].get<std::string>());
  line("plan", job["job"]["plan_reason"].get<std::string>());
  if (const std::string elements = ElementsText(job); !elements.empty()) {
    line("elements", elements);
    line("run directory", job["job"]["run_directory"].get<std::string>());
    return line("submitted", Ago(job["submitted_at_ns"]));
  }
  line("nodes", Names(job["gang"]) + SizeText(job));
  line("devices", DevicesText(job));
  line("preferred", PreferredText(job));
  line("attempt", std::to_string(job["attempt"].get<uint64_t>()));
  line("step", StepText(job));
  line("loss",
       Decimal(Number(job, "loss"), 4) + " (first " + Decimal(Number(job, "first_loss"), 4) + ")");
  line("validation", Decimal(Number(job, "validation_loss"), 4));
  line("speed", Compact(Number(job, "tokens_per_second")) + " tokens/s");
  const double eta = Number(job, "eta_seconds");
  line("eta", eta < 0 ? "-" : SecondsText(eta));
  if (job.contains("ledger")) line("goodput", Percent(Number(job["ledger"], "goodput")));
  line("snapshots", "step " + std::to_string(job["memory_step"].get<uint64_t>()) +
                        " in memory, step " +
                        std::to_string(job["committed_step"].get<uint64_t>()) + " on disk");
  line("run directory", job["job"]["run_directory"].get<std::string>());
  line("submitted", Ago(job["submitted_at_ns"]));
  for (const Json& fault : job["faults"]) {
    line(("fault " + std::to_string(fault["number"].get<uint64_t>())).c_str(),
         fault["what"].get<std::string>() + ": " + fault["action"].get<std::string>());
  }
}

void PrintEnvironment(const Json& job) {
  for (const auto& [name, value] : job["job"]["workload"]["environment"].items()) {
    std::printf("  %-14s %s=%s\n", "environment", Harmless(name).c_str(),
                Harmless(value.get<std::string>()).c_str());
  }
}

int ShowWhy(RestClient& client, const Options& options) {
  const auto why = client.Get("/v1/jobs/" + UrlEncode(options.job) + "/why");
  if (!why.ok()) return Fail(why.status());
  if (options.json) return PrintJson(*why), kExitOk;
  std::printf("%s: %s (%s)\n", (*why)["job_id"].get<std::string>().c_str(),
              (*why)["state"].get<std::string>().c_str(),
              (*why)["reason"].get<std::string>().c_str());
  std::printf("  %s\n", Harmless((*why)["sentence"].get<std::string>()).c_str());
  for (const Json& change : (*why)["fix"]) {
    std::printf("  would start it: %s\n", Harmless(change.get<std::string>()).c_str());
  }
  for (const Json& command : (*why)["commands"]) {
    std::printf("    %s\n", Harmless(command.get<std::string>()).c_str());
  }
  if (why->contains("at_once")) {
    std::printf("  all at once, as they were tried:\n    %s\n",
                Harmless((*why)["at_once"].get<std::string>()).c_str());
  }
  const auto when = [&](const char* key) {
    const double seconds =
        ToSeconds(InstantFromNanoseconds((*why)[key].get<int64_t>()) - io::Now());
    return "in " + SecondsText(std::max(0.0, seconds));
  };
  if (why->contains("expected_start_ns")) {
    std::printf("  expected: %s; nine of ten times %s\n", when("expected_start_ns").c_str(),
                why->contains("expected_late_ns") ? when("expected_late_ns").c_str() : "unknown");
  }
  return kExitOk;
}

int ShowStatus(RestClient& client, const Options& options) {
  if (options.why && options.job.empty()) {
    std::fprintf(stderr, "longhaul: --why needs a job: longhaul status JOB --why\n");
    return kExitUsage;
  }
  if (options.why) return ShowWhy(client, options);
  if (options.job.empty()) return Jobs(client, options);
  if (options.elements) {
    return PrintJobs(client, options, "/v1/jobs?array=" + UrlEncode(options.job));
  }
  const auto job = client.Get("/v1/jobs/" + UrlEncode(options.job) + EnvironmentQuery(options));
  if (!job.ok()) return Fail(job.status());
  if (options.json) {
    PrintJson(*job);
  } else {
    PrintJob(*job);
    if (options.environment) PrintEnvironment(*job);
  }
  return kExitOk;
}

int ChangeJobs(RestClient& client, const Options& options, const char* kind) {
  Json changes = Json::array();
  for (const std::string& job : options.subjects) changes.push_back({{kind, job}});
  return Change(client, options, std::move(changes));
}

int ChangeJob(RestClient& client, const Options& options) {
  Json change = {{"job", options.job}};
  if (options.nodes > 0) change["nodes"] = options.nodes;
  if (options.topology.starts_with('{')) {
    Json rules = Json::parse(options.topology, nullptr, /*allow_exceptions=*/false);
    if (!rules.is_object()) {
      std::fprintf(stderr,
                   "longhaul: --topology: '%s' is not a JSON object such as {\"required\": "
                   "\"block\", \"preferred\": \"leaf\"}\n",
                   Harmless(options.topology).c_str());
      return kExitUsage;
    }
    change["topology"] = std::move(rules);
  } else if (!options.topology.empty()) {
    change["topology"] = options.topology;
  }
  if (!options.devices.empty()) {
    change["devices"] = Json::array();
    for (const std::string& name : options.devices) {
      if (name != "any") change["devices"].push_back(name);
    }
  }
  if (options.mixed_devices || options.one_device_model) {
    change["mixed_devices"] = options.mixed_devices;
  }
  return Change(client, options, Json::array({change}));
}

int ScaleJob(RestClient& client, const Options& options) {
  return Change(client, options, Json::array({{{"scale", options.job}, {"nodes", options.nodes}}}));
}

int Stop(RestClient& client, const Options& options) {
  Json body = Json::object();
  if (!options.reason.empty()) body["reason"] = options.reason;
  const auto job = client.Post("/v1/jobs/" + UrlEncode(options.job) + "/stop", body);
  if (!job.ok()) return Fail(job.status());
  std::printf("%s: %s\n", (*job)["job"]["id"].get<std::string>().c_str(),
              (*job)["state"].get<std::string>().c_str());
  return kExitOk;
}

// `longhaul jobs`, and what may be done to them.
void AddList(CLI::App& app, Action& action, const std::shared_ptr<Options>& options) {
  const Command command = [](RestClient& client, const Options& chosen) {
    if (chosen.use == "expedite" || chosen.use == "evict" || chosen.use == "release") {
      return ChangeJobs(client, chosen, chosen.use.c_str());
    }
    if (chosen.use == "scale") return ScaleJob(client, chosen);
    return chosen.use == "change" ? ChangeJob(client, chosen) : Jobs(client, chosen);
  };
  CLI::App* jobs =
      Add(app, action, "jobs", "List all jobs, or expedite, evict, scale, release or change jobs",
          command, options);
  jobs->add_flag("--elements", options->elements, kElementsHelp);
  jobs->add_flag("--json", options->json, kJsonHelp);
  jobs->fallthrough();
  const auto verb = [&](const char* name, const char* help) {
    CLI::App* added = jobs->add_subcommand(name, help);
    added->add_option("--reason", options->reason, "Reason, which every user can read");
    added->callback([options, name] { options->use = name; });
    return added;
  };
  verb("expedite", "Put waiting jobs before all others")
      ->add_option("JOB", options->subjects, "Ids or names")
      ->required();
  verb("evict", "Let jobs take a snapshot, release their nodes and wait again")
      ->add_option("JOB", options->subjects, "Ids or names")
      ->required();
  verb("release", "Let jobs no longer wait for other jobs to end")
      ->add_option("JOB", options->subjects, "Ids or names of jobs or arrays")
      ->required();
  CLI::App* scale = verb("scale", "Let an elastic job have at most so many nodes, also as it runs");
  scale->add_option("JOB", options->job, "Job, by id or name")->required();
  scale->add_option("NODES", options->nodes, "Most nodes, within the bounds of its job file")
      ->required()
      ->check(CLI::Range(1, 1'000'000));
  scale->footer(
      "A running job that has more nodes takes a snapshot and continues on fewer. One that has\n"
      "fewer gets further nodes as they are free. Example:\n  longhaul jobs scale train-1 4");
  CLI::App* change = verb("change", "Change a waiting job");
  change->add_option("JOB", options->job, "Job, by id or name")->required();
  change->add_option("--nodes", options->nodes, "So many, of a job that has not begun");
  change->add_option("--topology", options->topology,
                     "The level of the network that its nodes share (cluster: none), or all "
                     "rules as JSON");
  change->add_option("--devices", options->devices, "Device models that may run it; any: all");
  CLI::Option* mixed = change->add_flag("--mixed-devices", options->mixed_devices,
                                        "Allow nodes with different device models");
  change
      ->add_flag("--one-device-model", options->one_device_model,
                 "Require nodes with the same device model")
      ->excludes(mixed);
}

}  // namespace

void AddJobs(CLI::App& app, Action& action, const std::shared_ptr<Options>& options) {
  CLI::App* submit = Add(app, action, "submit",
                         "Submit a job, an array or several jobs to a controller", Submit, options);
  submit->add_option("JOB.yaml", options->job, "The job file, of one job or several")->required();
  submit->add_option("--name", options->name, "Use this name instead of the job file's");
  submit->add_option("--inject", options->inject,
                     "Inject faults: 'kill worker 1 at step 40; kill agent 2 at step 90'");
  submit->add_option("--run-directory", options->run_directory,
                     "Write the run's files to this directory");
  submit->add_flag("--resume", options->resume,
                   "Continue from the newest checkpoint in that directory");
  submit->add_option("--from", options->from,
                     "Begin anew with the weights of another run's checkpoint: its folder (the "
                     "newest good one), one step's, s3://BUCKET/PREFIX");
  submit->add_option("--user", options->user,
                     "Charge the job's time to this user (default: the name of your account)");
  submit->add_flag("--watch", options->watch, "Follow the job to its end");
  submit->add_flag("--json", options->json, kJsonHelp);
  submit->footer(
      "Examples:\n  longhaul submit job.yaml --watch\n"
      "  longhaul submit tune.yaml --from runs/base --name tuned");

  CLI::App* status = Add(app, action, "status", "Show one job, or all", ShowStatus, options);
  status->add_option("JOB", options->job, "Job or array, by id or name");
  status->add_flag("--elements", options->elements, kElementsHelp);
  status->add_flag(
      "--why", options->why,
      "Explain why the job waits, what would start it now, and when it is expected to start");
  status->add_flag("--show-environment", options->environment,
                   "Show the values of the job's environment, which may be secrets");
  status->add_flag("--json", options->json, kJsonHelp);
  status->footer(
      "Examples:\n  longhaul status\n  longhaul status my-job-1 --why\n"
      "  longhaul status sweep-1 --elements");

  AddList(app, action, options);

  CLI::App* stop = Add(app, action, "stop", "Stop a job, or all of an array", Stop, options);
  stop->add_option("JOB", options->job, "Job or array, by id or name")->required();
  stop->add_option("--reason", options->reason, "Reason, which every user can read");
}

}  // namespace longhaul::bin::client
