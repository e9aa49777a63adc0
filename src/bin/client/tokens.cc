// `longhaul token`: who may use the controller.
#include <cstdio>

#include "base/time.h"
#include "bin/client/client.h"
#include "bin/table.h"
#include "io/files/private_files.h"

namespace longhaul::bin::client {
namespace {

using service::UrlEncode;

std::string TimeText(const Json& token, const char* key) {
  if (!token.contains(key)) return "never";
  return ToString(InstantFromNanoseconds(token[key].get<int64_t>()));
}

// Prints a new secret, or writes it into a file that only this user may read.
int GiveOut(const Options& options, const std::string& secret, const Json& answer) {
  if (!options.output.empty()) {
    const Status written = io::WritePrivateText(options.output, secret + "\n");
    if (!written.ok()) return Fail(written);
    if (!options.json) return std::printf("written to %s\n", options.output.c_str()), kExitOk;
  }
  if (options.json) {
    Json shown = answer;
    if (!options.output.empty()) shown.erase("token");
    return PrintJson(shown), kExitOk;
  }
  return std::printf("%s\n", secret.c_str()), kExitOk;
}

int Create(RestClient& client, const Options& options) {
  Json body = {{"name", options.name}, {"role", options.role}};
  if (!options.expires.empty()) body["expires"] = options.expires;
  const auto answer = client.Post("/v1/tokens", body);
  if (!answer.ok()) return Fail(answer.status());
  return GiveOut(options, (*answer)["token"].get<std::string>(), *answer);
}

int ListTokens(RestClient& client, const Options& options) {
  const auto answer = client.Get("/v1/tokens");
  if (!answer.ok()) return Fail(answer.status());
  if (options.json) return PrintJson(*answer), kExitOk;
  Table table({"TOKEN", "ROLE", "CREATED", "EXPIRES"});
  for (const Json& token : (*answer)["tokens"]) {
    table.Add({token["name"].get<std::string>(), token["role"].get<std::string>(),
               TimeText(token, "created_at_ns"),
               TimeText(token, "expires_at_ns") + (token["expired"].get<bool>() ? " (over)" : "")});
  }
  return std::printf("%s", table.Text().c_str()), kExitOk;
}

int Revoke(RestClient& client, const Options& options) {
  const auto answer =
      client.Post("/v1/tokens/" + UrlEncode(options.name) + "/revoke", Json::object());
  if (!answer.ok()) return Fail(answer.status());
  if (options.json) return PrintJson(*answer), kExitOk;
  return std::printf("%s is revoked\n", options.name.c_str()), kExitOk;
}

int CreateJoin(RestClient& client, const Options& options) {
  Json body = Json::object();
  if (!options.node.empty()) body["node"] = options.node;
  if (!options.expires.empty()) body["expires"] = options.expires;
  const auto answer = client.Post("/v1/join-tokens", body);
  if (!answer.ok()) return Fail(answer.status());
  return GiveOut(options, (*answer)["token"].get<std::string>(), *answer);
}

int RunToken(RestClient& client, const Options& options) {
  if (options.use == "create") return Create(client, options);
  if (options.use == "create-join") return CreateJoin(client, options);
  if (options.use == "revoke") return Revoke(client, options);
  return ListTokens(client, options);
}

CLI::App* AddOne(CLI::App& token, const std::shared_ptr<Options>& options, const char* name,
                 const char* help, const char* footer) {
  CLI::App* command = token.add_subcommand(name, help);
  command->add_flag("--json", options->json, kJsonHelp);
  command->footer(footer);
  command->callback([options, use = std::string(name)] { options->use = use; });
  return command;
}

}  // namespace

void AddTokens(CLI::App& app, Action& action, const std::shared_ptr<Options>& options) {
  CLI::App* token = Add(app, action, "token", "Create, list and revoke tokens", RunToken, options);
  token->require_subcommand(1);
  token->fallthrough();
  token->footer(
      "Each token has a role: view (read), operate (view, and submit, stop and change jobs) or\n"
      "administer (all). These commands need the role administer, which the file token in the\n"
      "controller's folder has (docs/security.md). Example:\n"
      "  longhaul token create grafana --role view --expires 90d --out grafana.token");

  CLI::App* create = AddOne(*token, options, "create", "Create a token and print it once",
                            "Examples:\n"
                            "  longhaul token create alice --role operate --out alice.token\n"
                            "  longhaul token create grafana --role view --expires 90d --json");
  create->add_option("NAME", options->name, "Name, which the audit log shows")->required();
  create->add_option("--role", options->role, "What its holder may do")
      ->required()
      ->check(CLI::IsMember({"view", "operate", "administer"}));
  create->add_option("--expires", options->expires,
                     "End after this long, such as 30d (default: never)");
  create->add_option("--out", options->output,
                     "Write the token to this file (mode 0600) instead of printing it");

  CLI::App* join =
      AddOne(*token, options, "create-join", "Create a token with which one agent joins, once",
             "An agent that has joined before needs --node. Example:\n"
             "  longhaul token create-join --node node-1 --out join.token");
  join->add_option("--node", options->node, "Let only the node of this name join");
  join->add_option("--expires", options->expires, "End after this long, at most 7d (default: 1h)");
  join->add_option("--out", options->output,
                   "Write the token to this file (mode 0600) instead of printing it");

  AddOne(*token, options, "list", "List the tokens, without their secrets",
         "Example:\n  longhaul token list --json");

  CLI::App* revoke = AddOne(*token, options, "revoke", "Make a token invalid at once",
                            "Example:\n  longhaul token revoke alice");
  revoke->add_option("NAME", options->name, "Name of the token")->required();
}

}  // namespace longhaul::bin::client
