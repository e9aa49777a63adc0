#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "base/time.h"
#include "bin/client/client.h"
#include "bin/table.h"

namespace longhaul::bin::client {
namespace {

std::string AmountText(double amount) {
  return Decimal(amount, amount == static_cast<double>(static_cast<int64_t>(amount)) ? 0 : 1);
}

std::string AcceleratorsText(const Json& amounts) {
  const double accelerators = Number(amounts, "accelerators");
  return accelerators < 0 ? "-" : AmountText(accelerators);
}

// Held and allowed, such as "2/10"; "2/-" without a limit.
std::string OfLimit(double held, double limit) {
  return AmountText(held) + "/" + (limit < 0 ? "-" : AmountText(limit));
}

// What each user has of what each user may have, in the queues that declare it.
void PrintUsers(const Json& queues) {
  Table table({"QUEUE", "USER", "JOBS", "RUNNING", "ACCELERATORS", "CPU", "MEMORY GIB"});
  bool any = false;
  for (const Json& queue : queues) {
    if (!queue.contains("per_user")) continue;
    any = true;
    const Json& limits = queue["per_user"];
    Json held = queue["held"];
    if (held.empty()) held.push_back({{"user", "-"}});
    for (const Json& user : held) {
      const Json amounts = user.contains("amounts") ? user["amounts"] : Json::object();
      const auto of = [&](const char* key) {
        return OfLimit(Number(amounts, key), Number(limits["amounts"], key));
      };
      const std::string name = user["user"].get<std::string>();
      table.Add({queue["name"].get<std::string>(), name.empty() ? "unknown" : name,
                 OfLimit(Number(user, "jobs"), Number(limits, "jobs")),
                 OfLimit(Number(user, "running"), Number(limits, "running")), of("accelerators"),
                 of("cpu"), of("memory_gib")});
    }
  }
  if (any) std::printf("\nlimits of each user, with the queues below:\n%s", table.Text().c_str());
}

// The accelerators of the amounts that are of this model.
double OfModel(const Json& amounts, const std::string& model) {
  if (!amounts.contains("devices")) return 0;
  for (const Json& device : amounts["devices"]) {
    if (device["model"] == model) return Number(device, "accelerators");
  }
  return 0;
}

// Accelerators by device model, where queues have quotas of models.
void PrintModels(const Json& queues) {
  Table table({"QUEUE", "DEVICES", "USED", "GUARANTEE", "LIMIT", "EACH USER"});
  bool any = false;
  for (const Json& queue : queues) {
    if (!queue["usage"].contains("devices")) continue;
    const auto text = [](double amount) { return amount < 0 ? "-" : AmountText(amount); };
    for (const Json& device : queue["usage"]["devices"]) {
      any = true;
      const auto model = device["model"].get<std::string>();
      const Json& limits = queue.contains("per_user") ? queue["per_user"]["amounts"] : Json();
      table.Add({queue["name"].get<std::string>(), model, text(Number(device, "accelerators")),
                 text(OfModel(queue["guarantee"], model)), text(OfModel(queue["limit"], model)),
                 limits.is_null() ? "-" : text(OfModel(limits, model))});
    }
  }
  if (any) std::printf("\naccelerators by device model:\n%s", table.Text().c_str());
}

// Who may submit, and for how long jobs run.
void PrintRules(const Json& queues) {
  constexpr size_t kMostNames = 8;
  bool first = true;
  for (const Json& queue : queues) {
    std::vector<std::string> rules;
    if (queue.contains("users") && !queue["users"].empty()) {
      const auto users = queue["users"].get<std::vector<std::string>>();
      const size_t shown = std::min(users.size(), kMostNames);
      std::string text =
          "users: " +
          Join({users.begin(), users.begin() + static_cast<std::ptrdiff_t>(shown)}, ", ");
      if (users.size() > shown) {
        text += " and " + std::to_string(users.size() - shown) + " more (--json)";
      }
      rules.push_back(text);
    }
    const Duration longest(static_cast<int64_t>(Number(queue, "max_run_ns")));
    if (longest > Duration(0)) rules.push_back("longest run: " + ToString(longest));
    if (rules.empty()) continue;
    std::printf("%s%s: %s\n", first ? "\n" : "", queue["name"].get<std::string>().c_str(),
                Join(rules, "; ").c_str());
    first = false;
  }
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
  PrintModels(queues);
  PrintUsers(queues);
  PrintRules(queues);
  return kExitOk;
}

int LimitQueue(RestClient& client, const Options& options) {
  Json limit = Json::object();
  if (options.accelerators != -2) limit["accelerators"] = options.accelerators;
  if (options.cpu != -2) limit["cpu"] = options.cpu;
  if (options.memory_gib != -2) limit["memory_gib"] = options.memory_gib;
  for (const std::string& each : options.device_limits) {
    const size_t equals = each.rfind('=');
    const auto amount = ParseDouble(equals == std::string::npos ? "" : each.substr(equals + 1));
    if (equals == 0 || !amount.ok()) {
      return Fail(InvalidArgument("--devices '" + Printable(each, 70) +
                                  "': expected MODEL=NUMBER, such as h100=8; -1: no limit"));
    }
    limit["devices"][each.substr(0, equals)] = *amount;
  }
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
      "Amounts are worker slots; limits of each user are shown as held/allowed. Queues are\n"
      "declared in the controller's file (docs/controller-file.md). Examples:\n  longhaul queues "
      "--json\n"
      "  longhaul queues limit lab --accelerators 12");
  CLI::App* limit = queues->add_subcommand("limit", "Set a queue's limit until the file changes");
  limit->add_option("QUEUE", options->name, "Its name")->required();
  limit->add_option("--accelerators", options->accelerators, "Worker slots; -1: no limit");
  limit->add_option("--cpu", options->cpu, "Cores; -1: no limit");
  limit->add_option("--memory-gib", options->memory_gib, "GiB; -1: no limit");
  limit->add_option("--devices", options->device_limits,
                    "MODEL=NUMBER: of these, the accelerators of a device model; -1: no limit; "
                    "repeat for more models");
  limit->add_option("--reason", options->reason, "Reason, which every user can read");
  limit->callback([options] { options->use = "limit"; });
}

}  // namespace longhaul::bin::client
