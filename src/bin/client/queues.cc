#include <cstdio>
#include <utility>

#include "bin/client/client.h"
#include "bin/table.h"
#include "frontend/format.h"

namespace longhaul::bin::client {
namespace {

using frontend::Decimal;
using frontend::Percent;

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

int LimitQueue(RestClient& client, const Options& options) {
  Json limit = Json::object();
  if (options.cards != -2) limit["cards"] = options.cards;
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
      "  longhaul queues limit lab --cards 12");
  CLI::App* limit = queues->add_subcommand("limit", "Set a queue's limit until the file changes");
  limit->add_option("QUEUE", options->name, "Its name")->required();
  limit->add_option("--cards", options->cards, "Worker slots; -1: no limit");
  limit->add_option("--cpu", options->cpu, "Cores; -1: no limit");
  limit->add_option("--memory-gib", options->memory_gib, "GiB; -1: no limit");
  limit->add_option("--reason", options->reason, "Reason, which every user can read");
  limit->callback([options] { options->use = "limit"; });
}

}  // namespace longhaul::bin::client
