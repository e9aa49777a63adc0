// `longhaul reserve`: nodes that are kept for some jobs, or for none, for a period.
#include <cstdio>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "bin/client/client.h"
#include "bin/table.h"

namespace longhaul::bin::client {
namespace {

using service::UrlEncode;

constexpr size_t kMostShown = 4;  // names of nodes in a line of the list

int WrongUse(const char* text) {
  std::fprintf(stderr, "longhaul: %s; see longhaul reserve --help\n", text);
  return kExitUsage;
}

// The exit code for a refused request: what names something wrong is wrong use.
int FailRequest(const Status& status) {
  Fail(status);
  const Code code = status.code();
  return code == Code::kInvalidArgument || code == Code::kNotFound ? kExitUsage : kExitFailure;
}

std::string HoldersText(const Json& reservation) {
  std::string text;
  for (const auto& [key, word] : {std::pair("queues", "queue "), std::pair("users", "user ")}) {
    for (const Json& name : reservation[key]) {
      text += (text.empty() ? "" : ", ") + std::string(word) + name.get<std::string>();
    }
  }
  return text.empty() ? "nobody" : text;
}

std::string NodesText(const Json& nodes) {
  Json shown = Json::array();
  for (const Json& name : nodes) {
    if (shown.size() < kMostShown) shown.push_back(name);
  }
  const size_t more = nodes.size() - shown.size();
  return Names(shown) + (more == 0 ? "" : " and " + std::to_string(more) + " more");
}

void AddRow(Table& table, const Json& reservation) {
  const std::string reason = reservation["reason"].get<std::string>();
  table.Add({reservation["name"].get<std::string>(),
             reservation["open"].get<bool>() ? "open" : "planned",
             reservation["from"].get<std::string>(), reservation["until"].get<std::string>(),
             Harmless(HoldersText(reservation)), Harmless(NodesText(reservation["nodes"])),
             reason.empty() ? "-" : Harmless(reason)});
}

void PrintRows(const Json& reservations) {
  Table table({"RESERVATION", "STATE", "FROM", "UNTIL", "FOR", "NODES", "REASON"});
  for (const Json& each : reservations) AddRow(table, each);
  std::printf("%s", table.Text().c_str());
}

int ListReservations(RestClient& client, const Options& options) {
  const auto answer = client.Get("/v1/reservations");
  if (!answer.ok()) return Fail(answer.status());
  if (options.json) return PrintJson(*answer), kExitOk;
  const Json& all = (*answer)["reservations"];
  if (all.empty()) return std::printf("no reservations\n"), kExitOk;
  PrintRows(all);
  return kExitOk;
}

int Cancel(RestClient& client, const Options& options) {
  Json body = Json::object();
  if (!options.reason.empty()) body["reason"] = options.reason;
  const auto answer = client.Post("/v1/reservations/" + UrlEncode(options.name) + "/cancel", body);
  if (!answer.ok()) return FailRequest(answer.status());
  if (options.json) return PrintJson(*answer), kExitOk;
  return std::printf("%s is cancelled\n", options.name.c_str()), kExitOk;
}

int Make(RestClient& client, const Options& options) {
  Json body = {{"name", options.name}, {"nodes", options.subjects}};
  for (const auto& [key, value] :
       {std::pair("from", &options.from), std::pair("until", &options.until),
        std::pair("for", &options.length), std::pair("reason", &options.reason)}) {
    if (!value->empty()) body[key] = *value;
  }
  if (!options.queues.empty()) body["queues"] = options.queues;
  if (!options.users.empty()) body["users"] = options.users;
  const auto answer = client.Post("/v1/reservations", body);
  if (!answer.ok()) return FailRequest(answer.status());
  if (options.json) return PrintJson(*answer), kExitOk;
  PrintRows(Json::array({*answer}));
  return kExitOk;
}

int Reserve(RestClient& client, const Options& options) {
  const bool plans = !options.subjects.empty() || !options.from.empty() || !options.until.empty() ||
                     !options.length.empty() || !options.queues.empty() || !options.users.empty();
  if (options.list || (options.name.empty() && !plans && !options.cancel)) {
    if (!options.name.empty() || plans || options.cancel) {
      return WrongUse("--list stands alone, or with --json");
    }
    return ListReservations(client, options);
  }
  if (options.name.empty()) return WrongUse("NAME of the reservation is missing");
  if (options.cancel) {
    if (plans) return WrongUse("--cancel takes a NAME, --reason and --json");
    return Cancel(client, options);
  }
  if (options.subjects.empty()) return WrongUse("--nodes is missing");
  if (options.until.empty() == options.length.empty()) {
    return WrongUse("one of --until and --for is needed");
  }
  return Make(client, options);
}

}  // namespace

void AddReserve(CLI::App& app, Action& action, const std::shared_ptr<Options>& options) {
  CLI::App* reserve =
      Add(app, action, "reserve", "Keep nodes for a queue, a user or maintenance for a period",
          Reserve, options);
  reserve->add_option("NAME", options->name, "Name of the reservation");
  reserve
      ->add_option("--nodes", options->subjects,
                   "Nodes, or domains with all their nodes, separated by commas; all: every node")
      ->delimiter(',')
      ->allow_extra_args(false);
  reserve->add_option("--from", options->from,
                      "Begin at this time: now, +2h or 2026-01-31T08:00:00Z (default: now)");
  reserve->add_option("--until", options->until, "End at this time");
  reserve->add_option("--for", options->length, "End after this long: 4h");
  reserve
      ->add_option("--queue", options->queues,
                   "Let the jobs of this queue and of the queues below use the nodes")
      ->allow_extra_args(false);
  reserve->add_option("--user", options->users, "Let the jobs of this user use the nodes")
      ->allow_extra_args(false);
  reserve->add_option("--reason", options->reason, "Reason, which every user can read");
  reserve->add_flag("--list", options->list, "List the reservations");
  reserve->add_flag("--cancel", options->cancel, "Cancel the reservation");
  reserve->add_flag("--json", options->json, kJsonHelp);
  reserve->footer(
      "Without --queue and --user nobody may use the nodes: a maintenance window. Before it, only\n"
      "jobs that are expected to end in time start there; when it begins, other jobs leave as "
      "from\n"
      "a drained node (docs/reservations.md). Examples:\n"
      "  longhaul reserve fans --nodes rack-3,node-7 --from 2026-01-31T08:00Z --for 4h\n"
      "  longhaul reserve course --nodes rack-1 --from +2h --for 1d --queue teaching\n"
      "  longhaul reserve --list\n"
      "  longhaul reserve fans --cancel");
}

}  // namespace longhaul::bin::client
