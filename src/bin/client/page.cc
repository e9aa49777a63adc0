// `longhaul page`: the address of the controller's web page.
#include <cstdio>

#include "bin/client/client.h"

namespace longhaul::bin::client {
namespace {

int PrintPage(RestClient& client, const Options& options) {
  Json body = Json::object();
  if (!options.role.empty()) body["role"] = options.role;
  const auto answer = client.Post("/v1/page/links", body);
  if (!answer.ok()) return Fail(answer.status());
  const std::string address = client.address() + answer->value("link", "");
  if (options.json) {
    return PrintJson({{"address", address},
                      {"role", answer->value("role", "")},
                      {"seconds", Number(*answer, "seconds")}}),
           kExitOk;
  }
  return std::printf("%s\n", address.c_str()), kExitOk;
}

}  // namespace

void AddPage(CLI::App& app, Action& action, const std::shared_ptr<Options>& options) {
  CLI::App* command =
      Add(app, action, "page", "Print an address that opens the web page", PrintPage, options);
  command->add_option("--role", options->role, "What the page may do, at most (default: view)")
      ->check(CLI::IsMember({"view", "operate", "administer"}));
  command->add_flag("--json", options->json, kJsonHelp);
  command->footer(
      "The address can be opened once, within 60 s. The browser then has a session of 12 h at\n"
      "most, which ends when the token that made it is revoked (docs/page.md). Examples:\n"
      "  longhaul page\n"
      "  longhaul page --controller https://cluster.example:8700 --token-file my.token");
}

}  // namespace longhaul::bin::client
