#include "bin/command_line.h"

namespace longhaul::bin {
namespace {

constexpr const char* kExamples = R"(Examples:
  longhaul run examples/headers-gpt.yaml                 train on a local cluster and write a report
  longhaul run --nodes 2 --procs 2 -- python3 train.py   keep an unmodified torchrun script alive
  longhaul plan llama-3.1-70b h100-sxm:512 --tokens 15T  predict time and cost, find the best layout
  longhaul controller --state-dir runs                   start a controller that keeps running
  longhaul submit examples/headers-gpt.yaml --watch      submit a job to it and follow the job

Exit codes: 0 success, 1 failure, 2 wrong usage. Guide: README.md.)";

}  // namespace

void DescribeProgram(CLI::App& app) {
  app.set_version_flag("--version", "longhaul " LONGHAUL_VERSION, "Print the version and exit");
  app.footer(kExamples);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
}

void AddCredentialOptions(CLI::App& command, std::string& token_file, std::string& ca_file) {
  command.add_option("--token-file", token_file, "Read the controller's token from this file");
  command.add_option("--ca-file", ca_file,
                     "Verify an https:// controller with this authority (default: "
                     "$LONGHAUL_CA_FILE, ~/.config/longhaul/ca.crt, /etc/longhaul/ca.crt)");
}

int ParseAndRun(CLI::App& app, const Action& action, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version are "errors" of exit code 0; everything else is wrong usage.
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return action ? action() : kExitUsage;
}

}  // namespace longhaul::bin
