#include "bin/client/client.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/format.h"
#include "base/time.h"
#include "bin/command_line.h"
#include "io/clock.h"

namespace longhaul::bin::client {

void PrintJson(const Json& json) { std::printf("%s\n", json.dump(2).c_str()); }

std::string Ago(const Json& at_ns) {
  const int64_t at = at_ns.get<int64_t>();
  if (at == 0) return "-";
  const double seconds = ToSeconds(io::Now() - InstantFromNanoseconds(at));
  return SecondsText(std::max(0.0, seconds)) + " ago";
}

double Number(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0.0;
}

std::string Names(const Json& list) {
  std::string text;
  for (const Json& name : list) text += (text.empty() ? "" : ", ") + name.get<std::string>();
  return text.empty() ? "-" : text;
}

CLI::App* Add(CLI::App& app, Action& action, const char* name, const char* help, Command command,
              const std::shared_ptr<Options>& options) {
  return AddWithLocal(app, action, name, help, std::move(command), nullptr, options);
}

CLI::App* AddWithLocal(CLI::App& app, Action& action, const char* name, const char* help,
                       Command command, LocalCommand local,
                       const std::shared_ptr<Options>& options) {
  CLI::App* added = app.add_subcommand(name, help)->group(kGroupClient);
  added->add_option(
      "--controller", options->endpoint.controller,
      "URL of the controller, or of all that stand by for each other with commas between "
      "(default: the one in $LONGHAUL_ENDPOINT or "
      "runs/endpoint.json)");
  AddCredentialOptions(*added, options->endpoint.token_file, options->endpoint.ca_file);
  added->callback([&action, command = std::move(command), local = std::move(local), options] {
    action = [command, local, options] {
      if (local != nullptr && options->local) return local(*options);
      const auto endpoint = service::FindEndpoint(options->endpoint);
      if (!endpoint.ok()) return Fail(endpoint.status());
      RestClient client(*endpoint);
      return command(client, *options);
    };
  });
  return added;
}

}  // namespace longhaul::bin::client
