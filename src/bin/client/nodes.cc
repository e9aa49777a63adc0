#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "base/time.h"
#include "base/units.h"
#include "bin/client/client.h"
#include "bin/table.h"
#include "io/clock.h"

namespace longhaul::bin::client {
namespace {

using service::UrlEncode;

constexpr auto kDrainPoll = std::chrono::milliseconds(250);

// Tells what still runs on a node that is being drained, until nothing does or the time is over.
int AwaitEmpty(RestClient& client, const Options& options, Duration limit) {
  const Instant until = io::Now() + limit;
  std::string shown;
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
    if (left != shown && !options.json) {
      std::printf("%s: waiting for %s\n", options.node.c_str(), left.c_str());
      std::fflush(stdout);
    }
    shown = left;
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

int RevokeAgent(RestClient& client, const Options& options) {
  const auto answer =
      client.Post("/v1/nodes/" + UrlEncode(options.node) + "/revoke", Json::object());
  if (!answer.ok()) return Fail(answer.status());
  if (options.json) return PrintJson(*answer), kExitOk;
  return std::printf("the certificate of %s is revoked\n", options.node.c_str()), kExitOk;
}

// The reservation that a node is in, or the next one; null: there is none.
const Json* WindowOf(const Json& node) {
  const auto window = node.find("window");
  return window == node.end() || !window->is_object() ? nullptr : &*window;
}

// One line for each reservation, with its nodes.
void PrintWindows(const Json& nodes) {
  std::map<std::string, std::pair<Json, uint64_t>> windows;
  for (const Json& node : nodes) {
    const Json* window = WindowOf(node);
    if (window == nullptr) continue;
    auto& [known, count] = windows[(*window)["reservation"].get<std::string>()];
    known = *window;
    ++count;
  }
  const auto at = [](const Json& window, const char* key) {
    return ToString(InstantFromNanoseconds(window[key].get<int64_t>()));
  };
  for (const auto& [name, each] : windows) {
    const auto& [window, count] = each;
    std::printf(
        "%s: %s of %s from %s until %s\n", name.c_str(),
        window["maintenance"].get<bool>() ? "maintenance" : "reservation",
        (WithThousands(static_cast<int64_t>(count)) + (count == 1 ? " node" : " nodes")).c_str(),
        at(window, "from_ns").c_str(), at(window, "until_ns").c_str());
  }
}

int TrustLinks(RestClient& client, const Options& options) {
  return Change(client, options, Json::array({{{"link", options.name}, {"level", options.level}}}));
}

int Nodes(RestClient& client, const Options& options) {
  if (options.use == "trust-links") return TrustLinks(client, options);
  if (options.use == "revoke") return RevokeAgent(client, options);
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
    std::string state =
        !node["connected"].get<bool>() ? "lost" : node["condition"].get<std::string>();
    if (const Json* window = WindowOf(node); window != nullptr && (*window)["open"].get<bool>()) {
      state += (*window)["maintenance"].get<bool>() ? ", maintenance" : ", reserved";
    }
    const double used = node.contains("used_accelerators") ? Number(node, "used_accelerators")
                                                           : node["used_slots"].get<double>();
    table.Add({node["name"].get<std::string>(), state,
               Decimal(used, used == std::floor(used) ? 0 : 3) + "/" +
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
    std::printf("%s: %s, %s\n", node["name"].get<std::string>().c_str(), Harmless(fault).c_str(),
                Ago(node["last_fault_at_ns"]).c_str());
  }
  PrintWindows(nodes);
  const auto links = client.Get("/v1/links");
  if (!links.ok()) return Fail(links.status());
  for (const Json& link : (*links)["links"]) {
    std::printf("links of %s %s: %s%s\n", link["level"].get<std::string>().c_str(),
                link["name"].get<std::string>().c_str(), Percent(Number(link, "health")).c_str(),
                link["trusted"].get<bool>() ? "" : ", no gang crosses them");
  }
  return kExitOk;
}

}  // namespace

// `longhaul nodes`, and what may be done to one.
void AddNodes(CLI::App& app, Action& action, const std::shared_ptr<Options>& options) {
  CLI::App* nodes =
      Add(app, action, "nodes", "List all nodes, or cordon, drain, uncordon or revoke nodes", Nodes,
          options);
  nodes->add_flag("--json", options->json, kJsonHelp);
  nodes->fallthrough();
  nodes->footer(
      "Examples:\n  longhaul nodes\n  longhaul nodes drain node-3 --timeout 5min\n"
      "  longhaul nodes uncordon node-3");
  const auto verb = [&](const char* name, const char* help) {
    CLI::App* added = nodes->add_subcommand(name, help);
    added->add_option("NODE", options->node, "Its name")->required();
    added->add_option("--reason", options->reason, "Reason, which every user can read");
    added->add_flag("--json", options->json, kJsonHelp);
    added->callback([options, name] { options->use = name; });
    return added;
  };
  verb("cordon", "Place no new work on a node; its jobs continue")
      ->footer("Example:\n  longhaul nodes cordon node-3 --reason 'fan is loud'");
  CLI::App* drain = verb("drain", "Cordon a node and move its jobs, or stop and queue them");
  drain->add_option("--timeout", options->timeout, "Wait this long for the node to be empty")
      ->capture_default_str();
  drain->add_flag("!--no-wait", options->wait, "Don't wait");
  drain->footer(
      "Each job takes a snapshot first. One that finds no other place waits in its queue once the\n"
      "controller's repair_patience is over; jobs with preemption: never stay. Example:\n"
      "  longhaul nodes drain node-3 --timeout 5min");
  verb("uncordon", "Use a node again, also one that is suspect or a spare")
      ->footer("Example:\n  longhaul nodes uncordon node-3");
  CLI::App* revoke =
      nodes->add_subcommand("revoke", "Make the certificate of a node's agent invalid at once");
  revoke->add_option("NODE", options->node, "Its name")->required();
  revoke->add_flag("--json", options->json, kJsonHelp);
  revoke->callback([options] { options->use = "revoke"; });
  revoke->footer(
      "The controller ends the agent's connection and refuses its certificate from then on, also\n"
      "after a restart. To let the machine join again, make a join token with the node's name and\n"
      "remove tls/agent.pem of the agent's state directory (docs/security.md). Example:\n"
      "  longhaul nodes revoke node-3");
  CLI::App* trust = nodes->add_subcommand("trust-links", "Let gangs cross a domain's links again");
  trust->add_option("LEVEL", options->level, "Of the domain: leaf")->required();
  trust->add_option("NAME", options->name, "The domain's")->required();
  trust->callback([options] { options->use = "trust-links"; });
}

}  // namespace longhaul::bin::client
