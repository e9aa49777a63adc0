// `longhaul check`: a node check over the agents of a controller, or the self test of this machine.

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "base/format.h"
#include "bin/check_options.h"
#include "bin/client/client.h"
#include "bin/table.h"
#include "proto/json.h"
#include "service/agent/check/self_test.h"

namespace longhaul::bin::client {
namespace {

constexpr auto kCheckPoll = std::chrono::milliseconds(200);
constexpr size_t kMostDeviceRows = 64;  // beyond, only those that are not good are listed

std::string Text(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? Harmless(found->get<std::string>())
                                                   : std::string();
}

// "12.3 GB/s"
std::string ValueText(const Json& measurement) {
  const double value = Number(measurement, "value");
  const int digits = value >= 100 || value <= -100 ? 0 : value >= 10 || value <= -10 ? 1 : 2;
  return Decimal(value, digits) + " " + Text(measurement, "unit");
}

std::string ValueOf(const Json& node, const char* name) {
  for (const Json& measurement : node["measurements"]) {
    if (Text(measurement, "name") == name) return ValueText(measurement);
  }
  return "-";
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

// Runs the check command and adds what it reports to `result`. Returns whether all is good.
bool TestDevices(const service::CheckCommand& command, Json& result) {
  const auto test = service::RunCheckCommand(command, io::CommandDeadline());
  if (!test.has_value()) return false;
  result["devices"] = proto::ToJson(*test);
  bool good = test->failure().empty() && test->mistake().empty();
  for (const proto::DeviceMeasurement& each : test->measurements()) good &= each.failed().empty();
  return good;
}

// What the check command of this machine has reported.
void PrintDevices(const Json& devices) {
  Table table({"DEVICE", "VALUE", "VERDICT", "DETAIL"});
  for (const Json& device : devices["measurements"]) {
    const std::string failed = Text(device, "failed");
    table.Add({Text(device, "name"), failed.empty() ? ValueText(device) : "-",
               failed.empty() ? "good" : "bad", OrDash(failed)});
  }
  if (!devices["measurements"].empty()) std::printf("\n%s", table.Text().c_str());
  for (const char* key : {"failure", "mistake"}) {
    if (const std::string text = Text(devices, key); !text.empty()) {
      std::printf("%s\n", text.c_str());
    }
  }
}

int CheckLocal(const Options& options) {
  Json result = proto::ToJson(service::RunSelfTest(options.check_directory));
  bool good = true;
  Table table({"MEASUREMENT", "VALUE", "VERDICT", "DETAIL"});
  for (const Json& measurement : result["measurements"]) {
    good &= Text(measurement, "verdict") == "good";
    table.Add({Text(measurement, "name"), ValueText(measurement), Text(measurement, "verdict"),
               OrDash(Text(measurement, "detail"))});
  }
  service::CheckCommand command = options.check_command;
  if (command.command.empty()) command.command = service::CheckCommandOfEnvironment();
  const bool has_command = !command.command.empty();
  if (has_command) good &= TestDevices(command, result);
  if (options.json) {
    PrintJson(result);
  } else {
    std::printf("%s", table.Text().c_str());
    if (has_command) PrintDevices(result["devices"]);
  }
  return good ? kExitOk : kExitFailure;
}

// Prints the lines of progress beyond the first `shown` ones.
void PrintProgress(const Json& status, size_t& shown) {
  const Json& progress = status["progress"];
  for (; shown < progress.size(); ++shown) {
    std::printf("%s\n", Harmless(progress[shown].get<std::string>()).c_str());
  }
  std::fflush(stdout);
}

std::string MarginText(const Json& row) {
  const double margin = Number(row, "margin_nats");
  return margin > 0 ? Decimal(margin, 1) : "-";
}

// A table of the devices of all nodes; of many only those that are not good.
void PrintDevicesOf(const Json& nodes) {
  size_t rows = 0;
  for (const Json& node : nodes) rows += node["devices"].size();
  if (rows == 0) return;
  Table table({"NODE", "DEVICE", "VALUE", "MEDIAN", "VERDICT", "DETAIL"});
  size_t hidden = 0;
  for (const Json& node : nodes) {
    for (const Json& device : node["devices"]) {
      const std::string failed = Text(device, "failed");
      if (rows > kMostDeviceRows && Text(device, "verdict") == "good") {
        ++hidden;
        continue;
      }
      Json median = device;
      median["value"] = device["median"];
      table.Add({Text(node, "name"), Text(device, "name"), failed.empty() ? ValueText(device) : "-",
                 Number(device, "median") > 0 ? ValueText(median) : "-", Text(device, "verdict"),
                 OrDash(failed)});
    }
  }
  if (hidden < rows) std::printf("\n%s", table.Text().c_str());
  if (hidden > 0) std::printf("%zu measurements of devices are good (--json lists them)\n", hidden);
}

void PrintResult(const Json& status) {
  Table nodes(
      {"NODE", "VERDICT", "MARGIN", "PRODUCT", "MEMORY", "DISK", "FREE", "CLOCK", "EVIDENCE"});
  for (const Json& node : status["nodes"]) {
    const std::string evidence = Text(node, "evidence");
    nodes.Add({Text(node, "name"), Text(node, "verdict"), MarginText(node),
               ValueOf(node, "matrix product"), ValueOf(node, "memory copy"),
               ValueOf(node, "disk write"), ValueOf(node, "disk free"),
               ValueOf(node, "clock difference"), OrDash(evidence)});
  }
  std::printf("%s", nodes.Text().c_str());
  PrintDevicesOf(status["nodes"]);
  const auto line = [](const std::string& what, const Json& row) {
    std::printf("%s: %s (margin %s): %s\n", what.c_str(), Text(row, "verdict").c_str(),
                MarginText(row).c_str(), Text(row, "evidence").c_str());
  };
  for (const Json& row : status["switches"]) line("switch " + Text(row, "name"), row);
  for (const Json& row : status["links"]) {
    line("link " + Text(row, "first") + " - " + Text(row, "second"), row);
  }
  const double seconds = (Number(status, "ended_at_ns") - Number(status, "started_at_ns")) * 1e-9;
  std::printf("verdict: %s; %.0f pair tests, %s\n", Text(status, "verdict").c_str(),
              Number(status, "pair_tests"), SecondsText(seconds).c_str());
}

int Check(RestClient& client, const Options& options) {
  Json body = Json::object();
  if (!options.subjects.empty()) body["nodes"] = options.subjects;
  auto status = client.Post("/v1/checks", body);
  if (!status.ok()) {
    Fail(status.status());
    const Code code = status.status().code();
    return code == Code::kInvalidArgument || code == Code::kNotFound ? kExitUsage : kExitFailure;
  }
  const std::string path =
      "/v1/checks/" + std::to_string(static_cast<uint64_t>(Number(*status, "check")));
  size_t shown = 0;
  while (!(*status)["finished"].get<bool>()) {
    std::this_thread::sleep_for(kCheckPoll);
    status = client.Get(path);
    if (!status.ok()) return Fail(status.status());
    if (!options.json) PrintProgress(*status, shown);
  }
  if (options.json) {
    PrintJson(*status);
  } else {
    PrintResult(*status);
  }
  const std::string error = Text(*status, "error");
  if (!error.empty()) return Fail(Unavailable(error));
  return Text(*status, "verdict") == "good" ? kExitOk : kExitFailure;
}

}  // namespace

void AddCheck(CLI::App& app, Action& action, const std::shared_ptr<Options>& options) {
  CLI::App* check = AddWithLocal(app, action, "check",
                                 "Test nodes and the network between them, and name what is faulty",
                                 Check, CheckLocal, options);
  CLI::Option* nodes =
      check
          ->add_option("--nodes", options->subjects,
                       "Names, separated by commas (default: all nodes without jobs)")
          ->delimiter(',');
  CLI::Option* local =
      check->add_flag("--local", options->local, "Only run the self test of this machine");
  local->excludes(nodes);
  check
      ->add_option("--dir", options->check_directory,
                   "With --local: the directory whose disk is measured")
      ->capture_default_str()
      ->needs(local);
  const auto [command, limit] = AddCheckCommandOptions(*check, options->check_command);
  command->needs(local);
  limit->needs(local);
  check->add_flag("--json", options->json, kJsonHelp);
  check->footer(
      "Each node tests its processor, memory and disk, and then its connections to some other\n"
      "nodes. An agent with --check-command also tests its devices. Nodes with jobs are left out.\n"
      "The exit code is 1 if a part is bad, slow or undecided (docs/node-check.md). Examples:\n"
      "  longhaul check\n"
      "  longhaul check --nodes node-3,node-4,node-5 --json\n"
      "  longhaul check --local");
}

}  // namespace longhaul::bin::client
