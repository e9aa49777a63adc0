#include <cstdio>
#include <utility>

#include "bin/client/client.h"
#include "bin/table.h"
#include "frontend/format.h"

namespace longhaul::bin::client {
namespace {

using frontend::Decimal;
using frontend::Percent;

std::string AcceleratorsText(const Json& amounts) {
  const double accelerators = Number(amounts, "accelerators");
  return accelerators < 0
             ? "-"
             : Decimal(
                   accelerators,
                   accelerators == static_cast<double>(static_cast<int64_t>(accelerators)) ? 0 : 1);
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
               AcceleratorsText(queue["usage"]), AcceleratorsText(queue["guarantee"]),
               AcceleratorsText(queue["limit"]), AcceleratorsText(queue["borrowed"]),
               Percent(Number(queue, "share")), std::to_string(queue["running"].get<uint64_t>()),
               std::to_string(queue["waiting"].get<uint64_t>())});
  }
  std::printf("%s", table.Text().c_str());
  return kExitOk;
}

int LimitQueue(RestClient& client, const Options& options) {
  Json limit = Json::object();
  if (options.accelerators != -2) limit["accelerators"] = options.accelerators;
  if (options.cpu != -2) limit["cpu"] = options.cpu;
  if (options.memory_gib != -2) limit["memory_gib"] = options.memory_gib;
  return Change(client, options,
                Json::array({{{"queue", options.name}, {"limit", std::move(limit)}}}));
}

}  // namespace

// `longhaul queues`, and their limits.
void AddQueues(CLI::App& app, Action& action, const std::shared_ptr<Options>& options) {
  const Command command = [](RestClient& client, const Options& chosen) {
    return chosen.use == "limit" ? LimitQueue(client, chosen) : Queues(client, chosen);
  };
  CLI::App* queues =
      Add(app, action, "queues", "Show usage, guarantee and limit of each queue", command, options);
  queues->add_flag("--json", options->json, kJsonHelp);
  queues->fallthrough();
  queues->footer(
      "Amounts are worker slots. Queues are declared in the controller's file\n"
      "(docs/controller-file.md). Examples:\n  longhaul queues --json\n"
      "  longhaul queues limit lab --accelerators 12");
  CLI::App* limit = queues->add_subcommand("limit", "Set a queue's limit until the file changes");
  limit->add_option("QUEUE", options->name, "Its name")->required();
  limit->add_option("--accelerators", options->accelerators, "Worker slots; -1: no limit");
  limit->add_option("--cpu", options->cpu, "Cores; -1: no limit");
  limit->add_option("--memory-gib", options->memory_gib, "GiB; -1: no limit");
  limit->add_option("--reason", options->reason, "Reason, which every user can read");
  limit->callback([options] { options->use = "limit"; });
}

}  // namespace longhaul::bin::client
