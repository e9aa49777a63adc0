#include "bin/client_commands.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"
#include "base/time.h"
#include "base/units.h"
#include "bin/notice_text.h"
#include "bin/table.h"
#include "frontend/format.h"
#include "io/clock.h"
#include "io/file.h"
#include "service/client/rest_client.h"

namespace longhaul::bin {
namespace {

using frontend::Compact;
using frontend::Decimal;
using frontend::Percent;
using frontend::SecondsText;
using service::EndpointChoice;
using service::FeedEvent;
using service::FollowOptions;
using service::Json;
using service::RestClient;
using service::UrlEncode;

constexpr uint64_t kLargestJobFile = 1 << 20;
constexpr auto kLogPoll = std::chrono::milliseconds(500);
constexpr auto kDrainPoll = std::chrono::milliseconds(250);

// What the client commands have in common; each uses its part.
struct Options {
  EndpointChoice endpoint;
  std::string job;
  std::string name;
  std::string inject;
  std::string run_directory;
  std::string reason;
  uint32_t rank = 0;
  uint64_t epoch = 0;  // 0: the newest
  std::string node;
  std::string use;                    // of a node: cordon, drain, uncordon; empty: list them
  std::string timeout = "10min";      // of a drain
  std::vector<std::string> subjects;  // jobs, a queue, a domain
  std::string changes;
  std::string topology;
  std::string level;
  uint32_t nodes = 0;
  double cards = -2;  // of a limit; -2: as it is
  double cpu = -2;
  double memory_gib = -2;
  bool wait = true;
  bool why = false;
  bool resume = false;
  bool watch = false;
  bool json = false;
  bool follow = false;
};

using Command = std::function<int(RestClient&, const Options&)>;

void PrintJson(const Json& json) { std::printf("%s\n", json.dump(2).c_str()); }

std::string Ago(const Json& at_ns) {
  const int64_t at = at_ns.get<int64_t>();
  if (at == 0) return "-";
  const double seconds = ToSeconds(io::Now() - InstantFromNanoseconds(at));
  return SecondsText(std::max(0.0, seconds)) + " ago";
}

std::string StepText(const Json& job) {
  const auto total = job["job"]["total_steps"].get<uint64_t>();
  const std::string step = std::to_string(job["step"].get<uint64_t>());
  return total == 0 ? step : step + "/" + std::to_string(total);
}

double Number(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0.0;
}

int FollowJob(RestClient& client, const std::string& id, bool json) {
  bool failed = false;
  FollowOptions options;
  options.on_connection = [](bool connected, const std::string& reason) {
    std::fprintf(stderr, "%s\n",
                 connected ? "connected again" : (reason + "; trying again").c_str());
  };
  const std::string path = id.empty() ? "/v1/events" : "/v1/jobs/" + UrlEncode(id) + "/events";
  const Status status = client.Follow(path, options, [&](const FeedEvent& event) {
    if (json) {
      std::printf(
          "%s\n",
          Json({{"id", event.id}, {"kind", event.kind}, {"data", event.data}}).dump().c_str());
    } else {
      std::printf("%s\n", NoticeLine(event).c_str());
    }
    std::fflush(stdout);
    if (event.kind == "state" && !id.empty()) {
      const std::string state = event.data["state"]["state"].get<std::string>();
      failed = state == "failed" || state == "stopped";
    }
    return true;
  });
  if (!status.ok()) return Fail(status);
  return failed ? kExitFailure : kExitOk;
}

int Submit(RestClient& client, const Options& options) {
  const auto text = io::ReadText(options.job, kLargestJobFile);
  if (!text.ok()) return Fail(text.status());
  Json body = {{"job", *text}, {"source", options.job}};
  if (!options.name.empty()) body["name"] = options.name;
  if (!options.inject.empty()) body["inject"] = options.inject;
  if (!options.run_directory.empty()) {
    // The controller may run elsewhere on this machine.
    body["run_directory"] = std::filesystem::absolute(options.run_directory).string();
  }
  if (options.resume) body["resume"] = true;
  const auto answer = client.Post("/v1/jobs", body);
  if (!answer.ok()) {
    Fail(answer.status());
    const Code code = answer.status().code();
    const bool bad_input = code == Code::kInvalidArgument || code == Code::kFailedPrecondition;
    return bad_input ? kExitUsage : kExitFailure;
  }
  const std::string id = (*answer)["id"].get<std::string>();
  if (options.json) {
    std::printf("%s\n", answer->dump().c_str());
  } else {
    std::printf("submitted %s\n  plan: %s\n  run directory: %s\n", id.c_str(),
                (*answer)["plan_reason"].get<std::string>().c_str(),
                (*answer)["run_directory"].get<std::string>().c_str());
  }
  std::fflush(stdout);
  return options.watch ? FollowJob(client, id, options.json) : kExitOk;
}

int Jobs(RestClient& client, const Options& options) {
  const auto answer = client.Get("/v1/jobs");
  if (!answer.ok()) return Fail(answer.status());
  if (options.json) return PrintJson(*answer), kExitOk;
  const Json& jobs = (*answer)["jobs"];
  if (jobs.empty()) return std::printf("no jobs yet: longhaul submit JOB.yaml\n"), kExitOk;
  Table table(
      {"JOB", "STATE", "STEP", "LOSS", "TOKENS/S", "GOODPUT", "ETA", "FAULTS", "SUBMITTED"});
  for (const Json& job : jobs) {
    const double eta = Number(job, "eta_seconds");
    table.Add({job["job"]["id"].get<std::string>(), job["state"].get<std::string>(), StepText(job),
               Number(job, "loss") == 0.0 ? "-" : Decimal(Number(job, "loss"), 3),
               Compact(Number(job, "tokens_per_second")),
               job.contains("ledger") ? Percent(Number(job["ledger"], "goodput")) : "-",
               eta < 0 ? "-" : SecondsText(eta), std::to_string(job["faults"].size()),
               Ago(job["submitted_at_ns"])});
  }
  std::printf("%s", table.Text().c_str());
  return kExitOk;
}

std::string Names(const Json& list) {
  std::string text;
  for (const Json& name : list) text += (text.empty() ? "" : ", ") + name.get<std::string>();
  return text.empty() ? "-" : text;
}

// " (3 of 1 to 4; 2 before)" of an elastic job: what it has, may have and had.
std::string SizeText(const Json& job) {
  const auto least = static_cast<uint64_t>(Number(job["job"], "minimum_nodes"));
  const auto most = static_cast<uint64_t>(Number(job["job"], "maximum_nodes"));
  if (least >= most) return "";
  std::string text = " (" + std::to_string(job["gang"].size()) + " of " + std::to_string(least) +
                     " to " + std::to_string(most);
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

void PrintJob(const Json& job) {
  const auto line = [](const char* key, const std::string& value) {
    if (!value.empty()) std::printf("  %-14s %s\n", key, frontend::Harmless(value).c_str());
  };
  std::printf("%s: %s\n", job["job"]["id"].get<std::string>().c_str(),
              job["state"].get<std::string>().c_str());
  line("reason", job["reason"].get<std::string>());
  line("plan", job["job"]["plan_reason"].get<std::string>());
  line("nodes", Names(job["gang"]) + SizeText(job));
  line("epoch", std::to_string(job["epoch"].get<uint64_t>()));
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

int ShowWhy(RestClient& client, const Options& options) {
  const auto why = client.Get("/v1/jobs/" + UrlEncode(options.job) + "/why");
  if (!why.ok()) return Fail(why.status());
  if (options.json) return PrintJson(*why), kExitOk;
  std::printf("%s: %s (%s)\n", (*why)["job_id"].get<std::string>().c_str(),
              (*why)["state"].get<std::string>().c_str(),
              (*why)["reason"].get<std::string>().c_str());
  std::printf("  %s\n", frontend::Harmless((*why)["sentence"].get<std::string>()).c_str());
  for (const Json& change : (*why)["fix"]) {
    std::printf("  would start it: %s\n", frontend::Harmless(change.get<std::string>()).c_str());
  }
  for (const Json& command : (*why)["commands"]) {
    std::printf("    %s\n", frontend::Harmless(command.get<std::string>()).c_str());
  }
  if (why->contains("at_once")) {
    std::printf("  all at once, as they were tried:\n    %s\n",
                frontend::Harmless((*why)["at_once"].get<std::string>()).c_str());
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

// Asks for changes, all at once.
int Change(RestClient& client, const Options& options, Json changes) {
  Json body = {{"changes", std::move(changes)}};
  if (!options.reason.empty()) body["reason"] = options.reason;
  const auto answer = client.Post("/v1/changes", body);
  if (!answer.ok()) {
    Fail(answer.status());
    return answer.status().code() == Code::kInvalidArgument ? kExitUsage : kExitFailure;
  }
  if (options.json) return PrintJson(*answer), kExitOk;
  const auto count = (*answer)["changes"].get<uint64_t>();
  return std::printf(count == 1 ? "changed\n" : "%llu changes\n",
                     static_cast<unsigned long long>(count)),
         kExitOk;
}

int Apply(RestClient& client, const Options& options) {
  Json changes = Json::parse(options.changes, nullptr, /*allow_exceptions=*/false);
  if (changes.is_discarded()) {
    std::fprintf(stderr, "longhaul: not JSON: %s\n", Printable(options.changes, 80).c_str());
    return kExitUsage;
  }
  return Change(client, options, std::move(changes));
}

int ChangeJobs(RestClient& client, const Options& options, const char* kind) {
  Json changes = Json::array();
  for (const std::string& job : options.subjects) changes.push_back({{kind, job}});
  return Change(client, options, std::move(changes));
}

int ChangeJob(RestClient& client, const Options& options) {
  Json change = {{"job", options.job}};
  if (options.nodes > 0) change["nodes"] = options.nodes;
  if (!options.topology.empty()) change["topology"] = options.topology;
  return Change(client, options, Json::array({change}));
}

int LimitQueue(RestClient& client, const Options& options) {
  Json limit = Json::object();
  if (options.cards != -2) limit["cards"] = options.cards;
  if (options.cpu != -2) limit["cpu"] = options.cpu;
  if (options.memory_gib != -2) limit["memory_gib"] = options.memory_gib;
  return Change(client, options,
                Json::array({{{"queue", options.name}, {"limit", std::move(limit)}}}));
}

int TrustLinks(RestClient& client, const Options& options) {
  return Change(client, options, Json::array({{{"link", options.name}, {"level", options.level}}}));
}

std::string CardsText(const Json& amounts) {
  const double cards = Number(amounts, "cards");
  return cards < 0
             ? "-"
             : Decimal(cards, cards == static_cast<double>(static_cast<int64_t>(cards)) ? 0 : 1);
}

int Queues(RestClient& client, const Options& options) {
  const auto answer = client.Get("/v1/queues");
  if (!answer.ok()) return Fail(answer.status());
  if (options.json) return PrintJson(*answer), kExitOk;
  const Json& queues = (*answer)["queues"];
  if (queues.empty()) {
    return std::printf("no nodes yet: longhaul agent --controller HOST:PORT ...\n"), kExitOk;
  }
  Table table(
      {"QUEUE", "UNDER", "USED", "GUARANTEE", "LIMIT", "BORROWED", "SHARE", "RUNNING", "WAITING"});
  for (const Json& queue : queues) {
    const std::string parent = queue["parent"].get<std::string>();
    table.Add({queue["name"].get<std::string>(), parent.empty() ? "-" : parent,
               CardsText(queue["usage"]), CardsText(queue["guarantee"]), CardsText(queue["limit"]),
               CardsText(queue["borrowed"]), Percent(Number(queue, "share")),
               std::to_string(queue["running"].get<uint64_t>()),
               std::to_string(queue["waiting"].get<uint64_t>())});
  }
  std::printf("%s", table.Text().c_str());
  return kExitOk;
}

int ShowStatus(RestClient& client, const Options& options) {
  if (options.why && options.job.empty()) {
    std::fprintf(stderr, "longhaul: --why needs a job: longhaul status JOB --why\n");
    return kExitUsage;
  }
  if (options.why) return ShowWhy(client, options);
  if (options.job.empty()) return Jobs(client, options);
  const auto job = client.Get("/v1/jobs/" + UrlEncode(options.job));
  if (!job.ok()) return Fail(job.status());
  if (options.json) {
    PrintJson(*job);
  } else {
    PrintJob(*job);
  }
  return kExitOk;
}

// Tells what still runs on a node that is being drained, until nothing does or the time is over.
int AwaitEmpty(RestClient& client, const Options& options, Duration limit) {
  const Instant until = io::Now() + limit;
  std::string told;
  while (true) {
    const auto answer = client.Get("/v1/nodes");
    if (!answer.ok()) return Fail(answer.status());
    std::string left;
    for (const Json& node : (*answer)["nodes"]) {
      if (node["name"] != options.node) continue;
      left = Names(node["jobs"]);
      if (left != "-") continue;
      if (options.json) return PrintJson(node), kExitOk;
      return std::printf("%s is empty\n", options.node.c_str()), kExitOk;
    }
    if (left != told && !options.json) {
      std::printf("%s: waiting for %s\n", options.node.c_str(), left.c_str());
      std::fflush(stdout);
    }
    told = left;
    if (io::Now() >= until) {
      std::fprintf(stderr, "longhaul: %s still runs %s after %s; it stays drained of new work\n",
                   options.node.c_str(), left.c_str(), options.timeout.c_str());
      return kExitFailure;
    }
    std::this_thread::sleep_for(kDrainPoll);
  }
}

int UseNode(RestClient& client, const Options& options) {
  const auto limit = ParseDuration(options.timeout);
  if (!limit.ok()) {
    std::fprintf(stderr, "longhaul: --timeout: %s\n", limit.status().message().c_str());
    return kExitUsage;
  }
  Json body = Json::object();
  if (!options.reason.empty()) body["reason"] = options.reason;
  const auto node = client.Post("/v1/nodes/" + UrlEncode(options.node) + "/" + options.use, body);
  if (!node.ok()) return Fail(node.status());
  if (options.use == "drain" && options.wait) return AwaitEmpty(client, options, *limit);
  if (options.json) return PrintJson(*node), kExitOk;
  std::printf("%s: %s\n", options.node.c_str(), (*node)["condition"].get<std::string>().c_str());
  return kExitOk;
}

int Nodes(RestClient& client, const Options& options) {
  if (options.use == "trust-links") return TrustLinks(client, options);
  if (!options.use.empty()) return UseNode(client, options);
  const auto answer = client.Get("/v1/nodes");
  if (!answer.ok()) return Fail(answer.status());
  if (options.json) return PrintJson(*answer), kExitOk;
  const Json& nodes = (*answer)["nodes"];
  if (nodes.empty()) {
    return std::printf("no nodes yet: longhaul agent --controller HOST:PORT ...\n"), kExitOk;
  }
  Table table(
      {"NODE", "STATE", "SLOTS", "ADDRESS", "HOST", "CORES", "MEMORY", "LOST", "HEALTH", "JOBS"});
  for (const Json& node : nodes) {
    const std::string state =
        !node["connected"].get<bool>() ? "lost" : node["condition"].get<std::string>();
    table.Add({node["name"].get<std::string>(), state,
               std::to_string(node["used_slots"].get<uint64_t>()) + "/" +
                   std::to_string(node["slots"].get<uint64_t>()),
               node["address"].get<std::string>(), node["host"].get<std::string>(),
               std::to_string(node["cores"].get<uint64_t>()),
               ToString(Bytes(node["memory_bytes"].get<int64_t>())),
               std::to_string(node["losses"].get<uint64_t>()), Percent(Number(node, "health")),
               Names(node["jobs"])});
  }
  std::printf("%s", table.Text().c_str());
  for (const Json& node : nodes) {
    const std::string fault = node["last_fault"].get<std::string>();
    if (fault.empty() || Number(node, "health") >= 1) continue;
    std::printf("%s: %s, %s\n", node["name"].get<std::string>().c_str(),
                frontend::Harmless(fault).c_str(), Ago(node["last_fault_at_ns"]).c_str());
  }
  const auto links = client.Get("/v1/links");
  if (!links.ok()) return Fail(links.status());
  for (const Json& link : (*links)["links"]) {
    std::printf("links of %s %s: %s%s\n", link["level"].get<std::string>().c_str(),
                link["name"].get<std::string>().c_str(), Percent(Number(link, "health")).c_str(),
                link["trusted"].get<bool>() ? "" : ", no gang crosses them");
  }
  return kExitOk;
}

int Events(RestClient& client, const Options& options) {
  if (options.follow) return FollowJob(client, options.job, options.json);
  const std::string path =
      options.job.empty() ? "/v1/events" : "/v1/jobs/" + UrlEncode(options.job) + "/events";
  uint64_t after = 0;
  while (true) {
    const auto answer = client.Get(path + "?after=" + std::to_string(after));
    if (!answer.ok()) return Fail(answer.status());
    for (const Json& event : (*answer)["events"]) {
      if (options.json) {
        std::printf("%s\n", event.dump().c_str());
        continue;
      }
      const FeedEvent notice{event["id"].get<uint64_t>(), event["kind"].get<std::string>(),
                             event["data"]};
      std::printf("%s\n", NoticeLine(notice).c_str());
    }
    if ((*answer)["events"].empty()) return kExitOk;
    after = (*answer)["last"].get<uint64_t>();
  }
}

bool IsOver(RestClient& client, const std::string& job) {
  const auto status = client.Get("/v1/jobs/" + UrlEncode(job));
  if (!status.ok()) return false;
  const std::string state = (*status)["state"].get<std::string>();
  return state == "succeeded" || state == "failed" || state == "stopped";
}

int Logs(RestClient& client, const Options& options) {
  const std::string base =
      "/v1/jobs/" + UrlEncode(options.job) + "/logs?rank=" + std::to_string(options.rank);
  std::string query = options.epoch == 0 ? "" : "&epoch=" + std::to_string(options.epoch);
  uint64_t epoch = 0;
  uint64_t end = 0;
  while (true) {
    // Asked for before the text: what a job writes before it is over is shown then.
    const bool over = !options.follow || IsOver(client, options.job);
    const auto part = client.Get(base + query);
    if (!part.ok() && (over || part.status().code() != Code::kNotFound)) return Fail(part.status());
    if (part.ok()) {
      const auto part_epoch = (*part)["epoch"].get<uint64_t>();
      if (part_epoch != epoch && epoch != 0 && options.epoch == 0) {
        std::fprintf(stderr, "--- epoch %llu\n", static_cast<unsigned long long>(part_epoch));
        query = "&from=0";
        epoch = part_epoch;
        continue;
      }
      epoch = part_epoch;
      end = (*part)["end"].get<uint64_t>();
      std::printf("%s", (*part)["text"].get<std::string>().c_str());
      std::fflush(stdout);
      query = (options.epoch == 0 ? "" : "&epoch=" + std::to_string(epoch)) +
              "&from=" + std::to_string(end);
    }
    if (over) return kExitOk;
    std::this_thread::sleep_for(kLogPoll);
  }
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

// Declares one command; the caller adds its own options.
CLI::App* Add(CLI::App& app, Action& action, const char* name, const char* help, Command command,
              const std::shared_ptr<Options>& options) {
  CLI::App* added = app.add_subcommand(name, help)->group(kGroupClient);
  added->add_option("--controller", options->endpoint.controller,
                    "URL of the controller (default: the one in $LONGHAUL_ENDPOINT or "
                    "runs/endpoint.json)");
  added->add_option("--token-file", options->endpoint.token_file, "The file with its token");
  added->callback([&action, command = std::move(command), options] {
    action = [command, options] {
      const auto endpoint = service::FindEndpoint(options->endpoint);
      if (!endpoint.ok()) return Fail(endpoint.status());
      RestClient client(*endpoint);
      return command(client, *options);
    };
  });
  return added;
}

// `longhaul nodes`, and what may be done to one.
void AddNodes(CLI::App& app, Action& action, const std::shared_ptr<Options>& options) {
  const char* json_help = "Print JSON instead of text";
  CLI::App* nodes =
      Add(app, action, "nodes", "List all nodes; cordon, drain, uncordon one", Nodes, options);
  nodes->add_flag("--json", options->json, json_help);
  nodes->fallthrough();
  nodes->footer(
      "Examples:\n  longhaul nodes\n  longhaul nodes drain node-3 --timeout 5min\n"
      "  longhaul nodes uncordon node-3");
  const auto verb = [&](const char* name, const char* help) {
    CLI::App* added = nodes->add_subcommand(name, help);
    added->add_option("NODE", options->node, "Its name")->required();
    added->add_option("--reason", options->reason, "Shown to everybody");
    added->add_flag("--json", options->json, json_help);
    added->callback([options, name] { options->use = name; });
    return added;
  };
  verb("cordon", "Place nothing new there; what runs stays")
      ->footer("Example:\n  longhaul nodes cordon node-3 --reason 'fan is loud'");
  CLI::App* drain = verb("drain", "Also move what runs there, or stop and queue it");
  drain->add_option("--timeout", options->timeout, "Wait so long for it to be empty")
      ->capture_default_str();
  drain->add_flag("!--no-wait", options->wait, "Don't wait");
  drain->footer(
      "Each job takes a snapshot first. One that finds no other place waits in its queue once the\n"
      "controller's repair_patience is over; jobs with preemption: never stay. Example:\n"
      "  longhaul nodes drain node-3 --timeout 5min");
  verb("uncordon", "Use it again, also one that is suspect or a spare")
      ->footer("Example:\n  longhaul nodes uncordon node-3");
  CLI::App* trust = nodes->add_subcommand("trust-links", "Let gangs cross a domain's links again");
  trust->add_option("LEVEL", options->level, "Of the domain: leaf")->required();
  trust->add_option("NAME", options->name, "The domain's")->required();
  trust->callback([options] { options->use = "trust-links"; });
}

// `longhaul jobs`, and what may be done to them.
void AddJobs(CLI::App& app, Action& action, const std::shared_ptr<Options>& options) {
  const Command command = [](RestClient& client, const Options& chosen) {
    if (chosen.use == "expedite" || chosen.use == "evict") {
      return ChangeJobs(client, chosen, chosen.use.c_str());
    }
    return chosen.use == "change" ? ChangeJob(client, chosen) : Jobs(client, chosen);
  };
  CLI::App* jobs =
      Add(app, action, "jobs", "List all jobs; change who waits and who runs", command, options);
  jobs->add_flag("--json", options->json, "Print JSON instead of text");
  jobs->fallthrough();
  const auto verb = [&](const char* name, const char* help) {
    CLI::App* added = jobs->add_subcommand(name, help);
    added->add_option("--reason", options->reason, "Shown to everybody");
    added->callback([options, name] { options->use = name; });
    return added;
  };
  verb("expedite", "Put jobs that wait before all others")
      ->add_option("JOB", options->subjects, "Ids or names")
      ->required();
  verb("evict", "Let jobs take a snapshot, leave their nodes and wait again")
      ->add_option("JOB", options->subjects, "Ids or names")
      ->required();
  CLI::App* change = verb("change", "Change a job that waits");
  change->add_option("JOB", options->job, "Its id or name")->required();
  change->add_option("--nodes", options->nodes, "So many, of a job that has not begun");
  change->add_option("--topology", options->topology,
                     "The level of the network that its nodes share; cluster: none");
}

// `longhaul queues`, and their limits.
void AddQueues(CLI::App& app, Action& action, const std::shared_ptr<Options>& options) {
  const Command command = [](RestClient& client, const Options& chosen) {
    return chosen.use == "limit" ? LimitQueue(client, chosen) : Queues(client, chosen);
  };
  CLI::App* queues =
      Add(app, action, "queues", "Show who uses how much of what they may", command, options);
  queues->add_flag("--json", options->json, "Print JSON instead of text");
  queues->fallthrough();
  queues->footer(
      "Amounts are worker slots. Queues are declared in the controller's file\n"
      "(docs/controller-file.md). Examples:\n  longhaul queues --json\n"
      "  longhaul queues limit lab --cards 12");
  CLI::App* limit = queues->add_subcommand("limit", "Set a queue's limit until the file changes");
  limit->add_option("QUEUE", options->name, "Its name")->required();
  limit->add_option("--cards", options->cards, "Worker slots; -1: no limit");
  limit->add_option("--cpu", options->cpu, "Cores; -1: no limit");
  limit->add_option("--memory-gib", options->memory_gib, "GiB; -1: no limit");
  limit->add_option("--reason", options->reason, "Shown to everybody");
  limit->callback([options] { options->use = "limit"; });
}

}  // namespace

void AddClientCommands(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  const char* json_help = "Print JSON instead of text";
  CLI::App* submit = Add(app, action, "submit", "Hand a job to a controller", Submit, options);
  submit->add_option("JOB.yaml", options->job, "The job file")->required();
  submit->add_option("--name", options->name, "Instead of the job file's name");
  submit->add_option("--inject", options->inject,
                     "Faults on purpose: 'kill worker 1 at step 40; kill agent 2 at step 90'");
  submit->add_option("--run-directory", options->run_directory, "Where its artefacts go");
  submit->add_flag("--resume", options->resume, "Go on from the newest checkpoint there");
  submit->add_flag("--watch", options->watch, "Follow it to its end");
  submit->add_flag("--json", options->json, json_help);

  CLI::App* status = Add(app, action, "status", "Show one job, or all", ShowStatus, options);
  status->add_option("JOB", options->job, "Its id or name");
  status->add_flag("--why", options->why,
                   "Why it waits, what would start it now, and when it is expected to start");
  status->add_flag("--json", options->json, json_help);
  status->footer("Examples:\n  longhaul status\n  longhaul status my-job-1 --why");

  AddJobs(app, action, options);
  AddNodes(app, action, options);
  AddQueues(app, action, options);
  CLI::App* apply = Add(app, action, "apply", "Make several changes at once, as --why states them",
                        Apply, options);
  apply->add_option("CHANGES", options->changes, "A list, as JSON: docs/openapi.yaml")->required();
  apply->add_option("--reason", options->reason, "Shown to everybody");
  apply->footer("Example:\n  longhaul apply '[{\"evict\": \"a-1\"}, {\"expedite\": \"b-1\"}]'");

  CLI::App* events = Add(app, action, "events", "Show what happened", Events, options);
  events->add_option("JOB", options->job, "Of this job only: its id or name");
  events->add_flag("-f,--follow", options->follow, "And what happens from now on");
  events->add_flag("--json", options->json, "Print a JSON object a line");

  CLI::App* logs = Add(app, action, "logs", "Show what a worker printed", Logs, options);
  logs->add_option("JOB", options->job, "Its id or name")->required();
  logs->add_option("--rank", options->rank, "The worker's rank (default 0)");
  logs->add_option("--epoch", options->epoch, "Default: the newest");
  logs->add_flag("-f,--follow", options->follow, "Until the job is over");

  CLI::App* stop = Add(app, action, "stop", "Stop a job", Stop, options);
  stop->add_option("JOB", options->job, "Its id or name")->required();
  stop->add_option("--reason", options->reason, "Shown to everybody");
}

}  // namespace longhaul::bin
