// Shared code of all commands that send requests to a running controller: their options, the
// declaration of a command, and the formatting of answers.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bin/command.h"
#include "service/agent/check/check_command.h"
#include "service/client/rest_client.h"

namespace longhaul::bin::client {

using service::Json;
using service::RestClient;

// The options of all commands; each command uses some of them.
struct Options {
  service::EndpointChoice endpoint;
  std::string job;
  std::string name;
  std::string inject;
  std::string run_directory;
  std::string from;
  std::string reason;
  uint32_t rank = 0;
  uint64_t attempt = 0;  // 0: the newest
  std::string node;
  std::string use;                    // for a node: cordon, drain, uncordon; empty: list the nodes
  std::string timeout = "10min";      // of a drain
  std::vector<std::string> subjects;  // jobs, a queue, a domain
  std::string changes;
  std::string topology;
  std::vector<std::string> devices;
  bool mixed_devices = false;
  bool one_device_model = false;
  std::string level;
  uint32_t nodes = 0;
  double accelerators = -2;  // of a limit; -2: unchanged
  double cpu = -2;
  double memory_gib = -2;
  std::vector<std::string> device_limits;  // "h100=8"
  std::string user;
  std::string by = "user";  // usage: the keys to group by
  std::string since;
  std::string until;
  bool csv = false;
  std::string horizon;  // what-if
  std::string length;   // of a reservation
  std::string role;     // of a token
  std::string expires;
  std::string output;  // file for a new token
  std::vector<std::string> queues;
  std::vector<std::string> users;
  std::string check_directory = ".";
  service::CheckCommand check_command;
  bool local = false;  // check this machine
  bool list = false;
  bool cancel = false;
  bool wait = true;
  bool why = false;
  bool resume = false;
  bool watch = false;
  bool json = false;
  bool follow = false;
  bool once = false;
  bool elements = false;     // of arrays, each in a line
  bool environment = false;  // show the values of environment variables
};

using Command = std::function<int(RestClient&, const Options&)>;
using LocalCommand = std::function<int(const Options&)>;

// Declares one command; the caller adds its own options.
CLI::App* Add(CLI::App& app, Action& action, const char* name, const char* help, Command command,
              const std::shared_ptr<Options>& options);
// The same for a command that runs `local`, without a controller, if --local is given.
CLI::App* AddWithLocal(CLI::App& app, Action& action, const char* name, const char* help,
                       Command command, LocalCommand local,
                       const std::shared_ptr<Options>& options);

// Each declares the commands of one file.
void AddJobs(CLI::App& app, Action& action, const std::shared_ptr<Options>& options);
void AddQueues(CLI::App& app, Action& action, const std::shared_ptr<Options>& options);
void AddNodes(CLI::App& app, Action& action, const std::shared_ptr<Options>& options);
void AddReserve(CLI::App& app, Action& action, const std::shared_ptr<Options>& options);
void AddApply(CLI::App& app, Action& action, const std::shared_ptr<Options>& options);
void AddCheck(CLI::App& app, Action& action, const std::shared_ptr<Options>& options);
void AddUsage(CLI::App& app, Action& action, const std::shared_ptr<Options>& options);
void AddWhatIf(CLI::App& app, Action& action, const std::shared_ptr<Options>& options);
void AddTokens(CLI::App& app, Action& action, const std::shared_ptr<Options>& options);
void AddPage(CLI::App& app, Action& action, const std::shared_ptr<Options>& options);
void AddTop(CLI::App& app, Action& action, const std::shared_ptr<Options>& options);
void AddOutput(CLI::App& app, Action& action, const std::shared_ptr<Options>& options);

// Requests changes, all at once; docs/openapi.yaml specifies `changes`.
int Change(RestClient& client, const Options& options, Json changes);
// Prints a job's events until the job ends; without an id, those of all jobs, without an end.
int FollowJob(RestClient& client, const std::string& id, bool json);

void PrintJson(const Json& json);
// "3 s ago"; "-" for the instant 0.
std::string Ago(const Json& at_ns);
// 0 where the key is absent.
double Number(const Json& json, const char* key);
// "a, b"; "-" for an empty list.
std::string Names(const Json& list);

inline constexpr const char* kJsonHelp = "Print JSON instead of text";

}  // namespace longhaul::bin::client
