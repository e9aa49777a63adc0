#include "bin/check_options.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace longhaul::bin {

std::pair<CLI::Option*, CLI::Option*> AddCheckCommandOptions(CLI::App& command,
                                                             service::CheckCommand& check) {
  constexpr auto kMost = service::kMostCheckCommandLimit / std::chrono::seconds(1);
  CLI::Option* text = command.add_option(
      "--check-command", check.command,
      "Command of /bin/sh that tests the devices of this node in a node check (default: "
      "$LONGHAUL_CHECK_COMMAND)");
  CLI::Option* limit =
      command
          .add_option_function<int64_t>(
              "--check-command-limit",
              [&check](int64_t seconds) { check.limit = std::chrono::seconds(seconds); },
              "Seconds after which the check command is killed and its node is bad")
          ->check(CLI::Range(int64_t{1}, int64_t{kMost}))
          ->default_str(std::to_string(kMost));
  return {text, limit};
}

}  // namespace longhaul::bin
