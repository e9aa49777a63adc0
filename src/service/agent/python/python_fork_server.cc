#include "service/agent/python/python_fork_server.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "service/agent/python/fork_server_modules.h"
#include "service/agent/python/interpreter.h"

namespace longhaul::service {
namespace {

constexpr char kSwitch[] = "LONGHAUL_FORK_SERVER";
constexpr const char* kOfOneWorker[] = {"RANK",
                                        "LOCAL_RANK",
                                        "GROUP_RANK",
                                        "ROLE_RANK",
                                        "MASTER_PORT",
                                        "LONGHAUL_AGENT_SOCKET",
                                        "LONGHAUL_ATTEMPT",
                                        "LONGHAUL_FAULT_STEP",
                                        "TORCHELASTIC_RESTART_COUNT",
                                        "TORCHELASTIC_ERROR_FILE"};
constexpr char kText[] = "LONGHAUL_FORK_SERVER_TEXT";

// The modules are a package of their own: __main__ becomes the program's.
constexpr char kBegin[] =
    "import json, os, sys\n"
    "from importlib.machinery import ModuleSpec\n"
    "def add(name, is_package=False):\n"
    "    module = type(sys)(name)\n"
    "    module.__spec__ = ModuleSpec(name, None, is_package=is_package)\n"
    "    module.__package__ = module.__spec__.parent\n"
    "    sys.modules[name] = module\n"
    "    return module\n"
    "package = add('_longhaul_fork_server', True)\n"
    "package.__path__ = []\n"
    "for name, text in json.loads(os.environ['LONGHAUL_FORK_SERVER_TEXT']):\n"
    "    module = add(package.__name__ + '.' + name)\n"
    "    module.__file__ = '<longhaul fork server>/' + name + '.py'\n"
    "    setattr(package, name, module)\n"
    "    exec(compile(text, module.__file__, 'exec'), module.__dict__)\n"
    "package.server.main()\n";

std::string ModulesAsJson() {
  nlohmann::json modules = nlohmann::json::array();
  for (const PythonModule& module : ForkServerModules()) {
    modules.push_back({module.name, module.text});
  }
  return modules.dump();
}

// Options that need no value: "-u", "-OO", "-uB".
bool IsPlainOption(std::string_view word) {
  return word.size() > 1 && word.find_first_not_of("bBdEOqsSuv", 1) == word.npos;
}

}  // namespace

std::optional<PythonProgram> ParsePythonProgram(std::span<const std::string> argv) {
  if (argv.size() < 2 || !IsPython(argv[0])) return std::nullopt;
  size_t at = 1;
  while (at < argv.size() && argv[at].starts_with('-')) {
    const std::string_view word = argv[at];
    if (word == "-m") break;
    if (word == "-W" || word == "-X") {
      at += 2;
    } else if (word.starts_with("-W") || word.starts_with("-X") || IsPlainOption(word)) {
      at += 1;
    } else {
      return std::nullopt;
    }
  }
  const size_t needed = at < argv.size() && argv[at] == "-m" ? 2 : 1;
  if (at + needed > argv.size() || argv[at].empty()) return std::nullopt;
  const auto begin = argv.begin() + static_cast<std::ptrdiff_t>(at);
  return PythonProgram{{argv.begin(), begin}, {begin, argv.end()}};
}

ForkServerCommand PythonForkServer(const PythonProgram& program,
                                   std::map<std::string, std::string> environment,
                                   std::string working_directory,
                                   const std::vector<std::string>& packages,
                                   const std::string& modules) {
  ForkServerCommand command;
  command.argv = program.interpreter;
  command.argv.insert(command.argv.end(), {"-c", kBegin});
  // Room for the words of a worker, which replace these.
  size_t length = 64;
  for (const auto* words : {&program.interpreter, &program.words}) {
    for (const std::string& word : *words) length += word.size() + 1;
  }
  command.argv.emplace_back(length, ' ');
  const nlohmann::json setup = {{"self", command.argv},
                                {"interpreter", program.interpreter},
                                {"words", program.words},
                                {"packages", packages},
                                {"modules", modules},
                                {"left_out", nlohmann::json::array()},
                                {"news", nlohmann::json::array()}};
  command.environment = std::move(environment);
  command.environment[kSwitch] =
      setup.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  command.environment[kText] = ModulesAsJson();
  // OpenBLAS starts its threads when it is loaded. A forked worker asks for them again.
  command.environment["OPENBLAS_NUM_THREADS"] = "1";
  // It is no worker. There is room for what tells a worker's processes from others.
  for (const char* name : kOfOneWorker) command.environment.erase(name);
  command.environment["LONGHAUL_FORK_SERVER_ROOM"] = std::string(400, ' ');
  command.working_directory = std::move(working_directory);
  return command;
}

bool ForkServerIsOff(const std::map<std::string, std::string>& environment) {
  const auto at = environment.find(kSwitch);
  return at != environment.end() && at->second == "0";
}

}  // namespace longhaul::service
