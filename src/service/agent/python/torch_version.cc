#include "service/agent/python/torch_version.h"

#include <fcntl.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "io/fd.h"
#include "io/process/process.h"
#include "io/process/program_output.h"
#include "runtime/rendezvous/request_parser.h"
#include "service/agent/python/interpreter.h"

namespace longhaul::service {
namespace {

constexpr Duration kLimit = std::chrono::seconds(5);

// find_spec of a top-level name imports nothing.
constexpr const char* kQuestion = R"py(
import importlib.util, os, re
spec = importlib.util.find_spec("torch")
for folder in spec.submodule_search_locations if spec else []:
    with open(os.path.join(folder, "version.py")) as file:
        print(re.search(r"__version__.*?= *['\"]([^'\"]+)", file.read())[1])
)py";

// The interpreter of the workers: the program, or the word after it that a wrapper (numactl, sh)
// starts; empty if there is none.
std::string Interpreter(const proto::Workload& workload) {
  for (const std::string& word : workload.command()) {
    if (IsPython(word)) return word;
    if (word.ends_with(".py")) break;  // the words after a script are its arguments
  }
  return "";
}

}  // namespace

std::string FindTorchVersion(const proto::Workload& workload,
                             const std::optional<io::UserAccount>& user) {
  const std::string interpreter = Interpreter(workload);
  if (interpreter.empty()) return "";
  const io::Fd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  io::ProcessOptions options;
  options.argv = {interpreter, "-c", kQuestion};
  options.environment = io::CurrentEnvironment();
  options.user = user;
  if (user) io::SetUserVariables(*user, options.environment);
  for (const auto& [name, value] : workload.environment()) options.environment[name] = value;
  options.working_directory = workload.working_directory();
  options.stderr_fd = null.get();
  const Result<std::string> output = io::OutputOf(std::move(options), kLimit);
  if (!output.ok()) return "";  // its workers will tell what is wrong with it
  std::string version = output->substr(0, output->find('\n'));
  return runtime::IsTorchVersion(version) ? version : "";
}

}  // namespace longhaul::service
